# Coterie's commands; `make` lists them. Each does its own set-up in .venv, by pip alone.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RESULTS := build/facts.json
# How many test processes; the suite is sized for two cores.
JOBS ?= 2
# What `make sim` looks at: the depth of small worlds, and which seeds.
DEPTH ?= 7
SEEDS ?= 1-10000
# More words for the command behind a target: make test ARGS='-k heartbeat'.
ARGS ?=

.PHONY: help setup demo test interop quick check format bench fuzz sim conformance clean

help: ## list these targets
	@echo 'Coterie: Kafka consumer groups in Python. Start with: make demo'
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with Coterie and everything its tests need

$(READY): pyproject.toml constraints.txt tools/setup.sh
	@bash tools/setup.sh $(VENV) dev
	@touch $@
	@echo 'ready: $(BIN)/coterie --help'

demo: $(READY) ## three real consumers share a topic: who owns what, live, and then in tables
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(READY) ## every test, real clients and kill -9 included, in random order
	@mkdir -p build
	@$(BIN)/pytest -n $(JOBS) --fact-results=$(RESULTS) $(ARGS)
	@$(BIN)/python -m tools.conformance --results $(RESULTS) --check

interop: $(READY) ## admin calls and commands against Apache Kafka too, from Maven Central
	@$(BIN)/python -m tests.interop build/kafka -n $(JOBS) $(ARGS)

quick: $(READY) ## the tests that take under a quarter of a second each
	@$(BIN)/pytest -n $(JOBS) -q -m 'not slow' \
	  --ignore tests/clients --ignore tests/crash $(ARGS)

check: $(READY) ## format, lint, types, import contracts, house rules
	@status=0; step() { echo "$$1"; shift; "$$@" || status=1; }; \
	step 'format'        $(BIN)/ruff format --check --quiet; \
	step 'lint'          $(BIN)/ruff check --quiet; \
	step 'types'         $(BIN)/mypy --no-error-summary; \
	quiet() { local said; said=$$("$$@" 2>&1) || { echo "$$said"; return 1; }; }; \
	step 'import layers' quiet $(BIN)/lint-imports --no-logo; \
	step 'house rules'   $(BIN)/python -m tools.tidy; \
	exit $$status

format: $(READY) ## let ruff lay out the code and fix what it can
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: $(READY) ## measure, print every figure next to its bar
	@$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY) ## throw bytes at every decoder for a bounded time
	@$(BIN)/python -m fuzz $(ARGS)

sim: $(READY) ## every small world, 10,000 worlds by seed, and the bugs put in on purpose
	@$(BIN)/python -m sim --exhaustive $(DEPTH)
	@$(BIN)/python -m sim --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)
	@$(BIN)/python -m sim --mutants --jobs $(JOBS)

conformance: $(READY) ## run the tests and write docs/conformance.md anew
	@mkdir -p build
	@$(BIN)/pytest -n $(JOBS) -q --fact-results=$(RESULTS) $(ARGS)
	@$(BIN)/python -m tools.conformance --results $(RESULTS)

clean: ## take away what the other targets made, .venv too
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
