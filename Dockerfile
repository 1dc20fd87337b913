# syntax=docker/dockerfile:1

# Debian's stable release and its own Python, by tag: a build takes what Debian has fixed since, where a digest would keep the bug.
# To build from a digest or a mirror: docker build --build-context debian:trixie-slim=docker-image://NAME@sha256:….
FROM debian:trixie-slim AS python
# hadolint ignore=DL3008 # the newest of this release of Debian is wanted
RUN apt-get update \
 && apt-get install --no-install-recommends --yes python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log

FROM python AS build
# hadolint ignore=DL3008 # nothing of it is in the image
RUN apt-get update \
 && apt-get install --no-install-recommends --yes binutils python3-venv
ENV UV_NO_CACHE=1 UV_LINK_MODE=copy UV_NO_PROGRESS=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /src
# The locked requirements first: they change seldom, so these layers are mostly cached. Every file is checked against its hash.
COPY requirements/uv.txt requirements/runtime.txt requirements/dev.txt requirements/
RUN python3 -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements/uv.txt \
 && /opt/uv/bin/uv venv --python /usr/bin/python3 /opt/topology-webhook
# What `uv pip` installs into.
ENV VIRTUAL_ENV=/opt/topology-webhook PATH=/opt/uv/bin:$PATH
RUN uv pip install --only-binary :all: --require-hashes --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY webhook/ webhook/
COPY certs/ certs/
COPY image/prune.py image/
# dev.txt locks the build backend; nothing else of it is installed.
RUN uv build --wheel --require-hashes --build-constraint requirements/dev.txt --out-dir dist \
 && uv pip install --no-deps dist/*.whl
# Compiles what the service loads, and removes what it does not: most of the Kubernetes client, tests, debug information.
RUN /opt/topology-webhook/bin/python image/prune.py \
 && /opt/topology-webhook/bin/topology-webhook serve --help >/dev/null

FROM python
LABEL org.opencontainers.image.title="topology-webhook" \
      org.opencontainers.image.description="NUMA- and rack-correct placement of pods on an unmodified kube-scheduler" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/topology-webhook /opt/topology-webhook
# Compiled above: nothing is written at run time, so the root file system can be read-only.
ENV PATH=/opt/topology-webhook/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, or the kubelet could not tell that it is not root.
USER 65532:65532
# 8443: the API server's calls. 8080: /metrics, /healthz, /readyz. 8444: /metrics by HTTPS. 8445: other replicas. 8090: the page. No HEALTHCHECK: Kubernetes ignores it, the chart has probes.
EXPOSE 8443 8080 8444 8445 8090
ENTRYPOINT ["topology-webhook"]
CMD ["serve"]
