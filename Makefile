# Everything a visitor or a developer does with Tickwheel. Needs make and a Python >= 3.11; `make help` lists the rest.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench simulate drill site sql dist clean

VENV := .venv
BIN := $(VENV)/bin
MEMBERS := shared executor_sdk admin
# `make PYTHON=/opt/python/bin/python3 …` chooses the interpreter of a new virtual environment.
PYTHON ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime ## Run Tickwheel here: one admin, two nodes, example jobs (RESET=1 starts afresh, PORT=8700)
	@exec $(BIN)/tickwheel demo --directory .demo $(if $(PORT),--port $(PORT)) $(if $(RESET),--reset) $(DEMO_FLAGS)

test: $(VENV)/.dev ## Run all tests (TIER="lint unit simulation e2e interop browser" chooses some; nightly: soak, fuzz, drills, more seeds)
	@exec $(BIN)/python -m tests.support.tiers $(TIER)

lint: $(VENV)/.dev ## Check style, types and layers
	@exec $(BIN)/python -m tests.support.tiers lint

bench: $(VENV)/.dev ## Measure speed and lateness (FULL=1 everything, PEERS=1 beside others, BENCH_FLAGS=--help)
	@exec $(BIN)/python -m tests.bench $(if $(FULL),--full) $(if $(PEERS),--only peers) $(BENCH_FLAGS)

simulate: $(VENV)/.dev ## Search the simulated cluster for broken guarantees (SEEDS=100)
	@exec $(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),100) $(SIMULATE_FLAGS)

drill: $(VENV)/.dev ## Break real admins, nodes and databases and count what is lost (DRILL_FLAGS=--help)
	@exec $(BIN)/python -m tests.drill $(DRILL_FLAGS)

site: $(VENV)/.dev ## Build the documents as a site, in build/site
	@exec $(BIN)/python docs/site/build.py

sql: $(VENV)/.runtime ## Write the schema of each database to sql/
	@exec $(BIN)/tickwheel db ddl --write sql

# Built where pip has put hatchling already: the same sources and tools give the same bytes, whoever builds them and when.
dist: $(VENV)/.dev ## Build wheels and sdists of the three distributions into dist/
	@rm -rf dist
	@for member in $(MEMBERS); do \
	    (cd $$member && ../$(BIN)/python -m hatchling build --directory ../dist --target sdist --target wheel >/dev/null) || exit 1; \
	done
	@cd dist && { sha256sum tickwheel_* 2>/dev/null || shasum -a 256 tickwheel_*; } > SHA256SUMS && cat SHA256SUMS

clean: ## Remove what make made: environment, demo data, caches
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are files inside the environment, so that deleting it deletes them too.
$(VENV)/.runtime: $(MEMBERS:%=%/pyproject.toml) | $(BIN)/python
	@echo "Installing Tickwheel into $(VENV) (about a minute the first time)"
	@$(PIP) install $(MEMBERS:%=--editable ./%)
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --upgrade 'pip>=25.1' # the first pip that reads [dependency-groups]
	@$(PIP) install --group dev
	@touch $@

# A dangling link (its Python was removed) counts as missing, and the environment is made anew.
$(BIN)/python:
	@[ -w . ] || { echo "Tickwheel: cannot write to $(CURDIR); copy it to a directory that you may write to." >&2; exit 1; }
	@for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    "$$candidate" -c 'import ensurepip, venv' 2>/dev/null || { without_venv=$$candidate; continue; }; \
	    echo "Creating $(VENV) with $$("$$candidate" --version)"; \
	    exec "$$candidate" -m venv --clear $(VENV); \
	done; \
	if [ -n "$$without_venv" ]; then \
	    echo "Tickwheel: $$without_venv has no venv module; on Debian or Ubuntu, install it with: apt-get install python3-venv" >&2; \
	else \
	    echo "Tickwheel: needs Python 3.11 or newer; install it, or name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	fi; \
	exit 1
