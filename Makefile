# Two commands for a newcomer; each alone does all set-up in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
PYTEST_ARGS ?=

.PHONY: demo test check diagrams mermaid clean

demo: $(VENV)/.installed  ## Run the example launches on a fresh SQLite file
	rm -rf $(DEMO) && mkdir -p $(DEMO)
# Exit code 4 says that some launches failed, which some of the examples do on purpose.
	SQLATCH_DB=$(DEMO)/sqlatch.db $(BIN)/sqlatch run examples/launches.jsonl --workers 4 || test $$? -eq 4

test: $(VENV)/.tools  ## Run the tests on SQLite and PostgreSQL
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

check: $(VENV)/.tools  ## Lint, types, import contracts, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m statemachine diagrams --check

diagrams: $(VENV)/.installed  ## Generate diagrams/ from the declarations
	$(BIN)/python -m statemachine diagrams

mermaid: build/mermaid/.installed  ## Install the real Mermaid parser for the tests (needs npm)

build/mermaid/.installed: tests/mermaid/package.json tests/mermaid/parse.mjs
	mkdir -p build/mermaid
	cp tests/mermaid/package.json tests/mermaid/parse.mjs build/mermaid/
	npm install --prefix build/mermaid --no-audit --no-fund --loglevel=error
	touch $@

clean:
	rm -rf $(VENV) build dist .coverage* .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# The private PostgreSQL is built for most platforms, not for all; without it, and without
# another server, the tests on PostgreSQL are skipped with a loud line.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,server]' \
		|| echo 'No private PostgreSQL for this platform: start one on 127.0.0.1:5432.'
	touch $@ $(VENV)/.installed
