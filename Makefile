# Coterie's commands; `make` lists them. Each installs what it needs into .venv with pip.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
LOCK := requirements-dev.txt
# Tests that run code of the packages which `make compiled` compiles.
USE_CORE := $(addprefix tests/,broker client differential gateway interop real_clients \
  scenarios sim testing wire)
# Number of test processes; the suite is sized for two cores.
JOBS ?= 2
# Idle test processes take tests from busy ones.
ON_JOBS := -n $(JOBS) --dist=worksteal
PYTEST := $(BIN)/pytest $(ON_JOBS)
# The tests that take under a quarter of a second each.
FAST := -q -m 'not slow' --hypothesis-profile=quick \
  --ignore tests/real_clients --ignore tests/crash
# `make sim`: depth of the exhaustive search, and seeds of the random runs.
DEPTH ?= 7
SEEDS ?= 1-10000
# More arguments for the command behind a target: make test ARGS='-k heartbeat'.
ARGS ?=

.PHONY: help setup demo demo-gateway test interop interop-versions kafka-changes ecosystem differential quick compiled dist check format bench fuzz faults sim mutants conformance docs lock versions pythons spark42 clean

help: ## list these targets
	@echo 'Coterie: Kafka consumer groups in Python. Start with: make demo'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with Coterie and everything its tests need

$(READY): pyproject.toml $(LOCK) tools/setup.sh
	@bash tools/setup.sh $(VENV)
	@touch $@
	@echo 'ready: $(BIN)/coterie --help'

$(DEMO_READY): pyproject.toml requirements-demo.txt tools/setup.sh
	@bash tools/setup.sh $(VENV) demo
	@touch $@

# What the demo's tables need is installed when the demo reaches them.
demo: $(if $(wildcard $(READY)),$(READY),$(DEMO_READY)) ## share a topic among three real consumers, live and then in tables
	@$(BIN)/python examples/demo.py $(ARGS)

demo-gateway: $(READY) ## kill a node and a broker under a gateway to three brokers of Apache Kafka
	@$(BIN)/python -m examples.demo_gateway build/kafka

test: $(READY) ## run every test, real clients and kill -9 included, in random order
	@$(PYTEST) $(ARGS)

interop: $(READY) ## run the comparison tests against Apache Kafka from Maven Central
	@$(BIN)/python -m tests.interop build/kafka -n $(JOBS) --dist=worksteal $(ARGS)
	@$(BIN)/python -m tests.differential build/kafka --requests 3000 --allow 4 --seed 1

interop-versions: $(READY) ## run the commands against Kafka 0.11 to 4.4 (ten minutes at most)
	@timeout 1200 $(BIN)/python -m tests.interop.versions build/kafka-versions $(ARGS)

kafka-changes: $(READY) ## list what a release of Kafka changes (ARGS='4.3.1 4.4.0')
	@$(BIN)/python -m tools.kafka_changes $(ARGS)

ecosystem: $(READY) ## run other projects' tests, from registries, against coterie serve
	@$(BIN)/python -m tests.ecosystem build/ecosystem $(ARGS)

differential: $(READY) ## send random requests to Apache Kafka and Coterie, compare answers
	@$(BIN)/python -m tests.differential build/kafka $(ARGS)

quick: $(READY) ## run the tests that take under a quarter of a second each
	@$(PYTEST) $(FAST) $(ARGS)

pythons: $(READY) ## run the fast tests on Python 3.12 and 3.13 (PYTHONS='PATH ...' on others)
	@bash tools/pythons.sh $(ON_JOBS) $(FAST) $(ARGS)

compiled: $(READY) ## build a wheel with a compiled core; run fast tests of the core on it
	@rm -rf build/wheel build/compiled build/lib build/bdist.*
	@COTERIE_COMPILED=1 MYPY_CACHE_DIR=.mypy_cache/compiled $(BIN)/python -m pip wheel \
	  --quiet --no-deps --no-build-isolation \
	  --wheel-dir build/wheel .
	@$(BIN)/python -m pip install --quiet --no-deps --no-index \
	  --target build/compiled build/wheel/coterie-*.whl
	@PYTHONPATH=build/compiled $(BIN)/coterie --version
	@PYTHONPATH=$(CURDIR)/build/compiled $(PYTEST) -q --build=compiled \
	  -m 'not slow' --hypothesis-profile=quick $(USE_CORE) $(ARGS)

dist: $(READY) ## build sdist, wheels and SBOM of a release into dist/ (ARGS=--pure)
	@$(BIN)/python -m tools.dist $(ARGS)

check: $(READY) ## check format, lint, types, import contracts and project rules
	@status=0; step() { echo "$$1"; shift; "$$@" || status=1; }; \
	step 'format'        $(BIN)/ruff format --check --quiet; \
	step 'lint'          $(BIN)/ruff check --quiet; \
	step 'types'         $(BIN)/mypy --no-error-summary; \
	for platform in win32 darwin; do \
	  step "types $$platform" $(BIN)/mypy --no-error-summary --platform $$platform \
	    --cache-dir .mypy_cache/$$platform src; \
	done; \
	quiet() { local output; output=$$("$$@" 2>&1) || { echo "$$output"; return 1; }; }; \
	step 'import layers' quiet $(BIN)/lint-imports --no-logo; \
	step 'locks'         $(BIN)/python -m tools.locks; \
	step 'project rules' $(BIN)/python -m tools.tidy; \
	exit $$status

format: $(READY) ## format the code with ruff and apply its fixes
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: $(READY) ## measure, and print every figure beside its bar
	@$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY) ## feed random bytes to every decoder, odd requests to a broker
	@$(BIN)/python -m fuzz $(ARGS)

faults: $(READY) ## inject crashes, disk faults, torn files, pauses and slow clients
	@$(BIN)/python -m tests.crash --jobs $(JOBS) $(ARGS)

sim: $(READY) ## run the simulations: exhaustive, 10,000 seeds each, and all mutants
	@$(BIN)/python -m sim --exhaustive $(DEPTH)
	@$(BIN)/python -m sim --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)
	@$(BIN)/python -m sim --gateway --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)
	@$(BIN)/python -m sim --mutants --jobs $(JOBS)

mutants: $(READY) ## change src at random places, and count the faults that tests detect
	@$(BIN)/python -m mutation.automated --jobs $(JOBS) --write $(ARGS)

docs: $(READY) ## build the docs site into build/site; ARGS=serve for a live preview
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(or $(ARGS),build --strict --quiet)
	@echo 'read build/site/index.html'

# The lowest versions are installed beside the tools of tests, of which botocore has an
# upper bound.
lock: $(READY) ## resolve the lock files again, with hashes (ARGS=--upgrade)
	@resolve() { $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --custom-compile-command 'make lock' --no-annotate \
	  --output-file "requirements-$$1.txt" "$${@:2}"; }; \
	resolve dev --extra dev pyproject.toml $(ARGS); \
	resolve demo --constraint $(LOCK) pyproject.toml - \
	  <<<$$'confluent-kafka\nrich\nsetuptools'; \
	resolve pipeline --constraint $(LOCK) --extra pipeline pyproject.toml - \
	  <<<'setuptools'; \
	resolve lowest --resolution lowest-direct --extra pipeline --extra fast \
	  --extra pkcs12 --extra ui --constraint <(echo 'python-dateutil<3') \
	  pyproject.toml - <<<'setuptools>=77'; \
	resolve spark-4.2 - <<<$$'pyspark==4.2.*\nsetuptools'

versions: $(READY) ## run the fast tests with the lowest and today's newest dependencies
	@bash tools/versions.sh lowest $(ON_JOBS) $(FAST) $(ARGS)
	@bash tools/versions.sh newest $(ON_JOBS) $(FAST) $(ARGS)

spark42: $(READY) ## run end-to-end tests of the pipeline with PySpark 4.2 and Delta Lake
	@bash tools/spark42.sh -n $(JOBS) $(ARGS)

conformance: $(READY) ## write docs/conformance.md from the marks of the tests
	@$(BIN)/python -m tools.conformance

clean: ## delete what the other targets created, .venv included
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
