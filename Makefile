# Everything from a fresh clone, with only Python 3.11 or newer and make:
#   make demo   run the main job and show its result
#   make test   every check: lint, types, import rules, tests
#   make bench  measurements that take minutes

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
OUT ?= demo
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --editable

.PHONY: demo test lint types imports tests bench clean

demo: $(VENV)/installed
	$(BIN)/elbert reproduce temporal --out $(OUT)

test: lint types imports tests

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/pyright

imports: $(VENV)/installed-dev
	$(BIN)/lint-imports

tests: $(VENV)/installed-dev
	$(BIN)/python -m pytest --numprocesses auto

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/worlds.py
	$(BIN)/python benchmarks/coverage.py

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "elbert needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml constraints.txt
	$(INSTALL) .
	touch $@

$(VENV)/installed-dev: $(VENV)/python pyproject.toml constraints.txt
	$(INSTALL) '.[dev]'
	touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) demo
