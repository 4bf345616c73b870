# Everything from a fresh clone, with only Python 3.11 or newer and make:
#   make demo   train with and without fairness on lending, show the comparison
#   make test   every check: lint, types, import rules, tests; a few minutes
#   make quick  lint and the tests that need no training: a first answer in about a minute
#   make test-all   make test, whole trainings and long studies, what needs extras, a Ray cluster, audits of Spark
#               frames (where there is Java), and pages in a browser (where there is Chromium)
#   make docs   the site with its API pages, in site/: strict, offline, links checked
#   make bench  measurements that take minutes
#   make reproduce  the paper's experiments, all of them: hours; REPRODUCE='main --quick' gives a first picture

# Programs are started often: without kept bytecode each of them takes three times as long to begin.
export PYTHONDONTWRITEBYTECODE =

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
OUT ?= demo
DEMO ?=
REPRODUCE ?=
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-compile --editable

PYTEST := $(BIN)/python -m pytest --numprocesses $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal

.PHONY: demo test test-all quick slow studies extras cluster spark browser lint types imports tests docs bench reproduce clean

demo: $(VENV)/installed
	$(BIN)/elbert train lending --method elbert-po --out $(OUT)/elbert-po --resume $(DEMO)
	$(BIN)/elbert train lending --method g-ppo --out $(OUT)/g-ppo --resume $(DEMO)
	$(BIN)/elbert compare $(OUT)/elbert-po $(OUT)/g-ppo --out $(OUT)

test: lint imports
	$(MAKE) --no-print-directory -j2 types tests

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/pyright

imports: $(VENV)/installed-dev
	$(BIN)/lint-imports

tests: $(VENV)/installed-dev
	$(PYTEST) -m 'not slow and not study and not browser and not cluster'

test-all: test slow studies extras cluster spark browser

slow: $(VENV)/installed-dev
	$(PYTEST) -m slow

studies: $(VENV)/installed-dev
	$(PYTEST) -m study

extras: $(VENV)/installed-extras
	$(PYTEST) -m 'not cluster' tests/learning/test_onnx.py tests/experiments/test_export.py tests/experiments/test_search.py \
		tests/experiments/test_store.py

cluster: $(VENV)/installed-extras
	$(BIN)/python -m pytest -m cluster tests

spark: $(VENV)/installed-spark
	$(BIN)/python -m pytest tests/auditing/test_engines.py -k spark

browser: $(VENV)/installed-browser
	$(BIN)/python -m pytest -m browser tests/browser

quick: lint imports
	$(PYTEST) -m 'not slow and not study' tests/fairness tests/exact/test_branch_and_bound.py tests/envs/test_trajectories.py tests/learning/test_estimates.py \
		tests/learning/test_settings.py tests/test_files.py tests/test_tables.py

docs: $(VENV)/installed-docs
	$(BIN)/zensical build --clean --strict --config-file mkdocs.yml
	$(BIN)/python docs/check_links.py site

bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/worlds.py
	$(BIN)/python benchmarks/coverage.py
	for study in coverage unknown monitor jumps; do $(BIN)/python benchmarks/audits.py $$study || exit 1; done
	$(BIN)/python benchmarks/audit_scale.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/large_worlds.py --only epidemic attention
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/limits.py
	$(BIN)/python benchmarks/finite_worlds.py

reproduce: $(VENV)/installed
	$(BIN)/elbert reproduce $(REPRODUCE)

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

$(VENV)/installed-spark: $(VENV)/installed-dev
	$(INSTALL) '.[dev,spark]'
	touch $@

$(VENV)/installed-extras: $(VENV)/installed-dev
	$(INSTALL) '.[dev,ray,search,store,onnx]'
	touch $@

$(VENV)/installed-browser: $(VENV)/installed-dev
	$(INSTALL) '.[dev,browser]'
	touch $@

$(VENV)/installed-docs: $(VENV)/python pyproject.toml constraints.txt
	$(INSTALL) '.[docs]'
	touch $(VENV)/installed $@

$(VENV)/installed-bench: $(VENV)/python pyproject.toml constraints.txt
	$(INSTALL) '.[dev,bench]'
	touch $(VENV)/installed $(VENV)/installed-dev $@

clean:
	rm -rf $(VENV) demo
