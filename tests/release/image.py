"""The image where no registry of images is reached: the Dockerfile's own steps, on a base made from Debian's packages.

1. mmdebstrap makes the base. It is what Debian publishes under that tag, up to the tag's own files: the release's
   minimal packages without documentation and translations.
2. buildah builds the Dockerfile on it. The base has the Dockerfile's name for it, so no step differs.
3. podman runs the image, for `image/check` and for `serve`.

Everything is in one folder: the user's own images stay as they are.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

from tests.release.distributions import run
from tests.release.version import ROOT

DOCKERFILE = ROOT / "Dockerfile"
IMAGE = "localhost/topology-webhook:test"
# Debian's packages of these names.
TOOLS = ("buildah", "mmdebstrap", "podman", "runc")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# What Debian leaves out of its slim images. By dpkg's configuration in them, packages that are added lack it, too.
_SLIM = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# The containers of this folder need neither a service manager nor higher limits than this process has.
_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
"""


def why_not() -> str | None:
    """Why no image can be built here; None if it can."""
    if os.geteuid() != 0:
        return "an image is built by root: buildah and mmdebstrap mount file systems"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"there is no {', '.join(missing)}: apt-get install {' '.join(TOOLS)}" if missing else None


class Images:
    """The images of one folder. `close` before the folder is deleted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "containers.conf").write_text(_CONTAINERS)
        places = ("--root", str(folder / "images"), "--runroot", str(folder / "run"), "--storage-driver", "overlay")
        # `env`: they read their limits and their runtime from the file.
        self._buildah = ("env", f"CONTAINERS_CONF={folder / 'containers.conf'}", "buildah", *places)
        self.podman = ("env", f"CONTAINERS_CONF={folder / 'containers.conf'}", "podman", *places)

    def build(self) -> None:
        """Build the Dockerfile. Takes minutes."""
        (base,) = set(re.findall(r"^FROM (\S+:\S+)", DOCKERFILE.read_text(), re.MULTILINE))
        self._make_base(base)
        # Programs in a chroot: no runtime, and the network of this machine.
        options = ("--isolation", "chroot", "--pull-never", "--layers=false", *self._trust())
        run(*self._buildah, "build", *options, "--tag", IMAGE, "--file", DOCKERFILE, ROOT)

    def _make_base(self, name: str) -> None:
        """Make what Debian publishes under this name: debian:RELEASE-slim."""
        release = name.removeprefix("debian:").removesuffix("-slim")
        archive = self._folder / "base.tar"
        excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _SLIM]
        run("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", *excluded, release, archive)
        container = run(*self._buildah, "from", "scratch").strip()
        run(*self._buildah, "add", container, archive, "/")
        run(*self._buildah, "commit", "--rm", container, name)
        archive.unlink()

    def _trust(self) -> list[str]:
        """Let pip and uv trust what this machine trusts while the image is built, such as a proxy of the network."""
        if not CERTIFICATES.exists():
            return []
        pip, uv = self._folder / "pip.conf", self._folder / "uv.toml"
        pip.write_text(f"[global]\ncert = {CERTIFICATES}\n")
        uv.write_text("native-tls = true\n")
        # Debian's ca-certificates, which venv requires, puts what it finds in that folder into CERTIFICATES.
        ours = "/usr/local/share/ca-certificates/machine.crt"
        mounted = {CERTIFICATES: ours, pip: "/etc/pip.conf", uv: "/etc/uv/uv.toml"}
        return [word for here, there in mounted.items() for word in ("--volume", f"{here}:{there}:ro")]

    def check(self) -> str:
        """What `image/check` prints."""
        return run("env", f"CONTAINER_ENGINE={shlex.join(self.podman)}", ROOT / "image" / "check", IMAGE)

    def write_program(self, path: Path, shared: Path) -> Path:
        """Write a program that runs the image as the chart does, on this machine's network. Returns its path.

        It has the caller's variables of the service, and reads the folder `shared`. Its user is root without any
        capability: that folder is root's, and no kubelet hands its files to the image's user.
        """
        restricted = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "0:0")
        options = ("--rm", "--network", "host", *restricted, "--volume", f"{shared}:{shared}:ro")
        command = shlex.join((*self.podman, "run", *options, "--env", "TOPOLOGY_WEBHOOK_*", IMAGE))
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o700)
        return path

    def close(self) -> None:
        """Remove the images and containers, which are mounted file systems."""
        run(*self.podman, "rm", "--all", "--force")
        run(*self._buildah, "rm", "--all")
        run(*self.podman, "rmi", "--all", "--force")
