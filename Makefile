# Each target does its own set-up first: a virtual environment in .venv, the test servers in .servers.
# The second time that takes a fraction of a second. The work is done by tools/setup.py.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-core setup-dev setup-docs setup-spark demo demo-quick test test-all bench docs pictures lint format clean

PYTHON := .venv/bin/python
SETUP := found="$$(sh tools/find-python)" && "$$found" -m tools.setup
# Two workers: each starts its own servers when a test first asks for one.
PYTEST := pytest -n 2 --dist loadgroup
TEST := TILTYARD_REQUIRE_SERVERS=1 $(PYTHON)

define CHECKS
$(PYTHON) -m ruff check .
$(PYTHON) -m ruff format --check .
$(PYTHON) -m mypy
.venv/bin/lint-imports --no-logo
endef

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Install everything the tests need
	@$(SETUP) dev servers

setup-core:
	@$(SETUP) core

setup-dev:
	@$(SETUP) dev

setup-docs:
	@$(SETUP) docs

setup-spark: ## Install Spark, and Java where the machine has none
	@$(SETUP) spark

demo: setup-spark ## Show what tiltyard does, on a directory of its own
	@$(PYTHON) -m demo

demo-quick: setup-core ## The same without Spark, in a few seconds
	@$(PYTHON) -m demo --quick

test: setup ## Check style, types and imports, then run the tests
	$(CHECKS)
	$(TEST) -m $(PYTEST) -m "not slow" $(ARGS)

test-all: setup ## The same, with the tests at full size, and how much of the code they run
	$(CHECKS)
	@$(PYTHON) -m coverage erase
	$(TEST) -m coverage run -m $(PYTEST) $(ARGS)
	@$(PYTHON) -m coverage combine --quiet
	$(PYTHON) -m coverage report

bench: setup ## Run every benchmark
	@$(PYTHON) -m benchmarks

docs: setup-docs ## Build the documentation as pages for a browser, in site/
	@$(PYTHON) -m mkdocs build --strict
	@echo "Open site/index.html in a browser."

pictures: setup ## Take the pictures of the console again
	TILTYARD_PICTURES=docs/images $(PYTHON) -m pytest -q tests/browser

lint: setup-dev ## Check style, types and imports
	$(CHECKS)

format: setup-dev ## Format the code and mend what can be mended
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

clean: ## Remove all that make made
	rm -rf .venv .servers build dist site .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
