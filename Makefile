# The two commands a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Every target below runs the locked tools of the checkout's own .venv; nothing is installed globally.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: venv
venv: $(READY) ## Set up .venv from the locked requirements

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@echo "==> Python: .venv with the locked requirements (about 20 s the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python >= 3.11 is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync --quiet --require-hashes requirements/uv.txt requirements/dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: lock
lock: $(READY) ## Rewrite requirements/*.txt from pyproject.toml
	@compile="uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate"; \
	$$compile pyproject.toml --extra speed -o requirements/runtime.txt; \
	$$compile pyproject.toml --extra speed --group test --group lint --group build -o requirements/dev.txt; \
	$$compile --group go -o requirements/go.txt; \
	grep -m1 '^uv==' requirements/uv.txt | cut -d' ' -f1 | $$compile - -o requirements/uv.txt
