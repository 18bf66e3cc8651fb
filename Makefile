# make demo, make test: both set up everything that they need. `make help` lists the targets.
#
# PYTHON=...       the interpreter to make .venv with (3.10 to 3.13; found by itself)
# PYTEST_ARGS=...  more arguments for pytest, e.g. PYTEST_ARGS='-k spec'
# PYTEST_JOBS=...  how many tests run at a time (default: two more than cores, at most 4; 0: one, in pytest's own process)
# TFAOT_TEST_TOOLCHAINS=...  further toolchains for the tests: versions, or all (CONTRIBUTING.md)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The interpreter must run: version managers put names on the PATH that do not. tools/make_venv.py needs ensurepip or pip.
in_range = $(shell $(1) tools/make_venv.py 2>/dev/null && echo $(1))
PYTHON ?= $(firstword $(foreach name,python3.12 python3.11 python3.10 python3.13 python3,$(call in_range,$(name))))

VENV := .venv
# The stamps' names have a digest of the inputs: the environment is made anew if one of them changes. First comes what
# tfaot-pkg needs to run, so that toolchains are installed beside the rest: pip computes on one core.
inputs := $(shell cat requirements/run.txt requirements/test.txt pyproject.toml | sha256sum | cut -c1-16)
RUNS := $(VENV)/.runs-$(inputs)
STAMP := $(VENV)/.made-$(inputs)
# Two more than cores: tests wait for disks, sockets, timers, and for what another worker makes for all.
PYTEST_JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
# Worksteal: expensive fixtures are made once for all workers (tests/kept.py), so any worker may run any test.
PYTEST := $(VENV)/bin/python -m pytest --numprocesses $(PYTEST_JOBS) --maxprocesses 4 --dist worksteal --durations=10
# Bytecode stays on: thousands of tests start the command line, and each start would compile it again.
export PYTHONDONTWRITEBYTECODE :=
TOOLS := build/tools-$(shell sha256sum requirements/tools.txt | cut -c1-16)
RELEASE := build/release-$(shell sha256sum requirements/release.txt | cut -c1-16)
# pip's bars on a terminal, elsewhere one line for each phase.
QUIET := $(shell [ -t 2 ] || echo --quiet)
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check $(QUIET)
# pluginbase, which the tests need through conan-server, exists as source only. What runs is compiled when it is first
# imported: less than half of all modules, and on two cores instead of one.
INSTALL := $(PIP) install --no-compile --require-hashes --only-binary :all: --no-binary pluginbase --requirement

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

.PHONY: venv
venv: $(STAMP) ## the virtual environment .venv, from pinned and hashed requirements

$(RUNS): requirements/run.txt requirements/test.txt pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
	  echo "No Python 3.10 to 3.13 with venv, and ensurepip or pip, was found. Install one (Debian, Ubuntu: apt-get install python3-venv)," >&2; \
	  echo "or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	@echo "$(VENV): virtual environment of $(PYTHON) ..."
	@rm -rf $(VENV)
	@$(PYTHON) tools/make_venv.py $(VENV)
	@echo "$(VENV): what this project needs to run ..."
	@$(INSTALL) requirements/run.txt
	@touch $@

$(STAMP): $(RUNS)
	@echo "$(VENV): what the tests need ..."
	@$(INSTALL) requirements/test.txt
	@echo "$(VENV): this project ..."
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: $(STAMP) ## publish the sample model, use it from C++, print its accuracy on held-out data
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bash tools/demo.sh

# Before the tests, and both at once: most slow tests would wait for the first toolchain.
.PHONY: toolchains
toolchains: $(RUNS)
	-@$(VENV)/bin/python -m tests.toolchains \
	  | TFAOT_HOME=$${TFAOT_TEST_HOME:-$(CURDIR)/build/test-home} xargs -P 2 -I {} $(VENV)/bin/python -m tfaot_pkg toolchain add {}

# pytest rewrites asserts and keeps the bytecode. Without this, every worker would do it for all files at the same time.
.PHONY: bytecode
bytecode: $(STAMP)
	-@$(VENV)/bin/python -m pytest --collect-only --quiet >/dev/null 2>&1

.PHONY: test
test: system-packages ## set-up, lint, types, and all tests except the long sweeps
	@# At once: mypy and pytest compute on one core each, and pip waits for the network.
	@$(MAKE) --no-print-directory --jobs 3 lint toolchains bytecode
	@$(PYTEST) -m 'not nightly' $(PYTEST_ARGS)

.PHONY: test-nightly
test-nightly: $(STAMP) system-packages toolchains ## the long sweeps (tests/README.md): some cases of each that `make test` leaves out
	@$(PYTEST) -m 'nightly and not release' $(PYTEST_ARGS)

.PHONY: test-release
test-release: $(STAMP) system-packages toolchains ## before a release: what both leave out
	@$(PYTEST) -m release $(PYTEST_ARGS)

.PHONY: test-quick
test-quick: $(STAMP) ## the tests that take seconds
	@$(PYTEST) -m 'not slow and not nightly' $(PYTEST_ARGS)

.PHONY: coverage
coverage: $(STAMP) system-packages toolchains ## docs/coverage.md: what each construct becomes with each toolchain
	@rm -rf build/coverage
	@# CI: a program that is missing fails, as cells that nobody tried would be dropped. Some tests alone replace their own cells.
	@CI=true TFAOT_COVERAGE=$(CURDIR)/build/coverage $(PYTEST) -m coverage $(PYTEST_ARGS)
	@$(VENV)/bin/python tools/make_coverage.py $(if $(PYTEST_ARGS),,--whole) build/coverage

.PHONY: wording
wording: $(STAMP) ## accept new words of messages (tests/wording.snapshot): of all, or PYTEST_ARGS=tests/source
	@$(PYTEST) --accept-wording $(PYTEST_ARGS)

.PHONY: lint
lint: $(STAMP) ## ruff (format and rules), mypy --strict, the contracts of imports, size and complexity
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/mypy --config-file tools/worker.mypy.toml
	@$(VENV)/bin/lint-imports --no-logo > $(VENV)/imports.txt || { cat $(VENV)/imports.txt >&2; exit 1; }
	@$(VENV)/bin/python tools/check_size.py

.PHONY: format
format: $(STAMP) ## format, and fix what ruff can fix
	@$(VENV)/bin/ruff check --fix-only --quiet .
	@$(VENV)/bin/ruff format --quiet .

.PHONY: lock
lock: $(STAMP) ## resolve again and rewrite requirements/*.txt (needs uv)
	@$(VENV)/bin/python tools/lock_requirements.py
	@$(VENV)/bin/python tools/lock_requirements.py --toolchains

.PHONY: reference
reference: $(STAMP) ## rewrite pages generated from the types: docs/reference, docs/*.schema.json
	@$(VENV)/bin/python tools/make_reference.py
	@$(VENV)/bin/tfaot-pkg schema --output docs/spec.schema.json
	@$(VENV)/bin/tfaot-pkg schema --registry --output docs/registry.schema.json
	@$(VENV)/bin/tfaot-pkg schema --settings --output docs/settings.schema.json

.PHONY: doxygen
doxygen: ## docs/reference/cpp.md and build/doxygen/html, from the headers' comments
	@python3 tools/make_cpp_reference.py
	@echo "build/doxygen/html/index.html"

$(TOOLS)/.made: requirements/tools.txt
$(RELEASE)/.made: requirements/release.txt
$(TOOLS)/.made $(RELEASE)/.made:
	@$(PYTHON) tools/make_venv.py $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --only-binary :all: --requirement $<
	@touch $@

.PHONY: docs
docs: $(TOOLS)/.made ## build/site: the documentation, with links, headings and spelling checked
	@$(TOOLS)/bin/python tools/make_docs.py

.PHONY: release
release: $(RELEASE)/.made ## dist/: build, check and sign a release (REPOSITORY=https://HOST/OWNER/NAME KEY=OPENPGP-KEY)
	@TFAOT_REPOSITORY="$(REPOSITORY)" KEY="$(KEY)" $(RELEASE)/bin/python tools/make_release.py

.PHONY: system-packages
system-packages: ## install the Debian or Ubuntu packages that the tests need
	@bash tools/install_system_packages.sh

.PHONY: clean
clean: ## remove everything generated here (not the user's caches)
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
