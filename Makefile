# The two commands of the README are `make demo` and `make test`. Both need Python >= 3.11 and make, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help demo test check fast dev format manifests clean

help:            ## show this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

demo: $(STAMP)   ## run the main job on the embedded sandbox cluster
	@$(BIN)/kubenexus demo

test: $(STAMP)   ## run all tests, on the sandbox and on a real API server where one can be had
	@hack/test

fast: $(STAMP)   ## run the tests that need no real API server
	@hack/test --fast

check: $(STAMP) dev ## lint, types, import contracts, packaging
	@hack/check

dev: $(STAMP)    ## install the command kubenexus and the tools into .venv, with links for mypy and editors
	@mkdir -p .dev/kubenexus && for p in agent webhook scheduler common; do ln -sfn ../../$$p .dev/kubenexus/$$p; done

format: $(STAMP) ## rewrite the code in the project's format
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix-only --exit-zero .

manifests: $(STAMP) ## render the installation as one YAML, dist/kubenexus.yaml, with the image of REGISTRY
	@mkdir -p dist && hack/manifests $(if $(REGISTRY),--set image.repository=$(REGISTRY)/kubenexus) > dist/kubenexus.yaml
	@echo "dist/kubenexus.yaml"

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "KubeNexus needs Python 3.11 or newer: set PYTHON=/path/to/python3"; exit 1; }
	@echo "==> creating $(VENV) and installing kubenexus with its tools (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:           ## remove everything that make created
	@rm -rf $(VENV) .dev build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
