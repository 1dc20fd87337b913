# The two commands a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=

# Fast tests compute: a process per core. Cluster tests mostly wait: two at a time, each process with a control plane of
# its own and a file's tests in their order. More would crowd those that are about time out of their core.
# `exec`: a signal to make reaches pytest, which ends all that it has started.
FAST_TESTS := PYTHONHASHSEED=$${PYTHONHASHSEED:-0} exec pytest -q -n auto --maxprocesses 8 -m "not cluster"
TWO_FILES  := exec pytest -q -n auto --maxprocesses 2 --dist loadfile --no-loadscope-reorder
# Per test it is pyproject.toml's `timeout`; all of them together took an hour and a half on two cores.
LONG_TESTS := TOPOLOGY_WEBHOOK_TEST_LONG=1 $(TWO_FILES) --session-timeout 14400

# Every target below runs the locked tools of the checkout's own .venv; nothing is installed globally.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# The caller's own Python settings must not leak into the .venv. Without bytecode each of the several hundred programs that
# tests start would compile its modules first: 4.8 s of CPU instead of 2.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: demo
demo: $(READY) ## Show an offline review, then the webhook on a real control plane (KEEP=1 keeps it running)
	@python -m tests.demo $(if $(KEEP),--keep)

.PHONY: test
test: $(READY) ## What every change must pass: lint, fast tests, each capability once on the real control plane
	@echo "==> 1/3 lint"
	@$(MAKE) --no-print-directory lint
	@echo "==> 2/3 fast tests"
	@$(MAKE) --no-print-directory test-fast
	@echo "==> 3/3 each capability on the real control plane"
	@$(MAKE) --no-print-directory test-cluster

.PHONY: test-fast
test-fast: $(READY) ## Tests that need no control plane (ARGS='-k name' selects some)
	@$(FAST_TESTS) $(ARGS)

.PHONY: test-cluster
test-cluster: $(READY) ## Each capability once on the real control plane: the table of CONTRIBUTING.md
	@python -m tests.cluster build
	@python -m tests.capabilities >$(VENV)/capabilities && $(TWO_FILES) -m cluster @$(VENV)/capabilities $(ARGS)

.PHONY: test-long
test-long: $(READY) ## All the rest, in hours: every test at full length, other projects' components, other Kubernetes versions
	@echo "==> 1/2 every test on the real control plane, and the full length of those that are short in make test"
	@python -m tests.cluster build --all
	@python -m tests.neighbours
	@$(LONG_TESTS) -m "cluster or long or hypothesis" $(ARGS)
	@echo "==> 2/2 other versions of Kubernetes"
	@$(MAKE) --no-print-directory matrix

.PHONY: neighbours
neighbours: $(READY) ## Run the real components of other projects beside ours, built from their modules (ARGS='-k jobset')
	@python -m tests.cluster build
	@TOPOLOGY_WEBHOOK_TEST_LONG=1 pytest -q tests/neighbours $(ARGS)

.PHONY: matrix
matrix: $(READY) ## All tests on the oldest Kubernetes and the one before the default (VERSIONS='1.33' names others)
	@for version in $(or $(VERSIONS),1.30 1.36); do \
	  echo "==> Kubernetes $$version"; \
	  export ENVTEST_K8S_VERSION=$$version; \
	  python -m tests.cluster build && ($(TWO_FILES) -m cluster $(ARGS)) || exit 1; \
	done

.PHONY: up
up: $(READY) ## Run a control plane in the foreground (ARGS='--webhook --replicas 2 --nodes 8 --zones 2')
	@exec python -m tests.cluster up $(ARGS)

.PHONY: bench
bench: $(READY) ## Measure speed as ratios of one run (ARGS=--json prints one object a line)
	@python -m tests.bench $(ARGS)

.PHONY: scale
scale: $(READY) ## Measure a replica with 50,000 nodes (ARGS='--nodes 1000,5000 --json')
	@python -m tests.scale $(ARGS)

.PHONY: proof
proof: $(READY) ## Compare NUMA machines with real and with simulated kubelets without and with the webhook, as a table (ARGS='--scenario X --seed N --json')
	@python -m tests.proof $(ARGS)

.PHONY: proof-table
proof-table: $(READY) ## Run all scenarios of proof and write their tables into docs/how-it-works.md
	@python -m tests.proof --into docs/how-it-works.md $(ARGS)

.PHONY: chaos
chaos: $(READY) ## Inject faults under a load of pods and gangs (ARGS='--scenario X --seconds N --seed S --json')
	@python -m tests.chaos $(ARGS)

.PHONY: chaos-table
chaos-table: $(READY) ## Run all scenarios of chaos and write their table into docs/reliability.md
	@python -m tests.chaos --into docs/reliability.md $(ARGS)

.PHONY: fuzz
fuzz: $(READY) ## Search for inputs that break an invariant, with a new seed (ARGS='--seconds 600 --seed N --only cli')
	@python -m tests.fuzz $(ARGS)

.PHONY: conformance
conformance: $(READY) ## Compare with results of the kubelet's own code and the upstream plugin
	@python -m tests.conformance --cases tests/conformance/golden $(ARGS)

.PHONY: docs
docs: $(READY) ## Build the docs as a site in build/site
	@mkdocs build --strict --clean && echo "docs: build/site/index.html"

.PHONY: lint
lint: $(READY) ## ruff, mypy --strict, the import rule, yamllint, long lines of pages, actionlint
	@ruff check --quiet . && ruff format --check --quiet . && echo "ruff: ok"
	@mypy --no-error-summary && echo "mypy --strict: ok"
	@lint-imports --no-logo >$(VENV)/import-rule.log 2>&1 && echo "import rule: kept" || { cat $(VENV)/import-rule.log; exit 1; }
	@yamllint --strict . && echo "yamllint: ok"
	@# Longer lines are not read in a terminal or on GitHub without scrolling; the cells of a table wrap to several each.
	@! LC_ALL=C.UTF-8 grep -nHE '^([^|].{200}|.*\|[^|]{203})' *.md docs/*.md charts/*/README.md && echo "lines of pages: ok"
	@shellcheck .ci/run image/check krew/kubectl-topology && echo "shellcheck: ok"
	@python -m tests.workflows && echo "actionlint: ok"

.PHONY: fmt
fmt: $(READY) ## Format, and fix what ruff can fix
	@ruff check --fix --quiet . ; ruff format .

.PHONY: venv
venv: $(READY) ## Set up .venv from the locked requirements

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@echo "==> Python: .venv with the locked requirements (about 20 s the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python >= 3.11 is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode requirements/uv.txt requirements/dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: manifests
manifests: $(READY) ## Write deploy/install.yaml from the chart
	@python -m tests.chart.manifests

.PHONY: lock
lock: $(READY) ## Rewrite requirements/*.txt from pyproject.toml
	@compile="uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate"; \
	$$compile pyproject.toml -o requirements/command.txt; \
	$$compile pyproject.toml --extra server -o requirements/runtime.txt; \
	$$compile --group audit -o requirements/audit.txt; \
	$$compile pyproject.toml --extra server --extra plot --group test --group lint --group docs --group build --group release -o requirements/dev.txt; \
	$$compile --group go -o requirements/go.txt; \
	$$compile --group node -o requirements/node.txt; \
	grep -m1 '^uv==' requirements/uv.txt | cut -d' ' -f1 | $$compile - -o requirements/uv.txt

.PHONY: audit
audit: $(READY) ## Compare the locked Python packages with the known vulnerabilities, which a public service knows
	@uv venv --quiet --clear build/audit
	@uv pip install --quiet --python build/audit --only-binary :all: --require-hashes --requirement requirements/audit.txt
	@for file in requirements/*.txt; do \
	  build/audit/bin/pip-audit --progress-spinner off --require-hashes --disable-pip --requirement $$file $(ARGS) || exit 1; \
	done

.PHONY: release-dry-run
release-dry-run: $(READY) ## Build and check all of a release that needs no registry, into dist/ (ARGS='--tag v1.2.3 --image NAME')
	@python -m tests.release $(ARGS)

.PHONY: clean
clean: ## Remove .venv and the tools' caches (the built control plane stays in the user cache)
	@rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
