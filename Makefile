# The front door. Needs Python 3.11+, make and the package registries; everything lands in .venv, nothing elsewhere.
#   make demo | test | check | test-partners | soak | bench | docs | clean      ARGS="…" goes to the program that runs

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
ARGS ?=
# snapshots are compared, not written; saying so spares a paragraph
QUIET := --inline-snapshot=disable
export PYTHON ?= python3

# what would make the environment another one than the one that was asked for, or every start slower
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX VIRTUAL_ENV

# a tree that was moved or copied needs its environment anew
ifneq ($(shell cat $(VENV)/.place 2>/dev/null),$(CURDIR))
MOVED := moved
endif

.PHONY: help demo test check format test-partners soak bench docs pins clean moved
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(VENV)/.run ## the agent at work on a small project, with a scripted model: no key, no network
	@$(PY) -m tugline demo $(ARGS)

test: $(VENV)/.dev ## all tests that need nothing but this environment
	@$(PY) -m pytest -n 2 $(QUIET) -m "not partner and not soak" -rs $(ARGS)

check: $(VENV)/.dev ## style, types, and who may import whom
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-logo || failed=1; \
	exit $$failed

format: $(VENV)/.dev ## let ruff put the style right
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test-partners: $(VENV)/.partners ## tests against clients, servers and a model that others wrote
	@$(PY) -m pytest -n 2 --dist loadfile $(QUIET) -m "partner and not soak" -rs $(ARGS)

soak: $(VENV)/.dev ## long runs: the hammers, and every property with more and other examples
	@HYPOTHESIS_PROFILE=explore $(PY) -m pytest -n 2 -m "not partner" -rs --timeout 3600 $(ARGS)

bench: $(VENV)/.bench ## what things cost, with the floor beside them
	@$(PY) -m bench $(ARGS)

docs: $(VENV)/.docs ## the manual, as a site in site/
	@$(BIN)/zensical build $(ARGS)

pins: ## constraints.txt anew, from the newest versions that the registries have
	@sh scripts/pins.sh

clean: ## remove all that was made here
	rm -rf $(VENV) .partners .peers .cache build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

moved:

$(VENV)/.%: pyproject.toml constraints.txt scripts/environment.sh $(MOVED)
	@sh scripts/environment.sh $*

$(VENV)/.partners: pyproject.toml constraints.txt scripts/environment.sh tests/partners/node/package-lock.json $(MOVED)
	@sh scripts/environment.sh partners
