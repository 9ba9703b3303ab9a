# Two commands for a stranger: `make run` and `make test`. Both set themselves up.
# The virtual environment is rebuilt only when its lock file changes.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
SKILLS  := packages/comity-skills
SEEDS   ?= 10000
ROUNDS  ?= 200
SECONDS ?= 60
ARGS    ?=

.DEFAULT_GOAL := help
.PHONY: help run test lowest check format bench fuzz sim torture nat evals train conformance mcpb sbom docs lock clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: $(VENV)/ready-run ## set up and start a node (ARGS="--port 8100")
	@$(BIN)/comity up $(ARGS)

test: $(VENV)/ready-dev ## set up and run all tests
	@$(BIN)/python .ci/test.py $(ARGS)

lowest: ## every door with the lowest versions that are allowed
	@$(PYTHON) .ci/lowest.py

check: $(VENV)/ready-dev ## lint, format, types, imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --verbose | tail -n 20

format: $(VENV)/ready-dev ## put the code into its one format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/ready-bench ## measure each workload beside its baseline
	@$(BIN)/python -m bench $(ARGS)

fuzz: $(VENV)/ready-dev ## feed the parsers garbage (SECONDS=60 for each)
	@$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

sim: $(VENV)/ready-dev ## simulate crashing stores and peers (SEEDS=10000)
	@COMITY_SIM_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n auto tests/simulation $(ARGS)

torture: $(VENV)/ready-dev ## kill -9 a writing store, and nodes under load (ROUNDS=200)
	@COMITY_TORTURE_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m torture $(ARGS)

nat: $(VENV)/ready-dev ## two people behind routers of every kind, in network namespaces (needs root, nftables, iproute2)
	@COMITY_NAT=all $(BIN)/python -m pytest -s -m nat $(ARGS)

evals: $(VENV)/ready-dev ## measure how well the skills do what they claim
	@cd $(SKILLS) && $(CURDIR)/$(BIN)/python -m evals $(ARGS)

train: $(VENV)/ready-dev ## fit the second opinion of the crisis detector to its texts
	@cd $(SKILLS) && $(CURDIR)/$(BIN)/python -m evals.training $(ARGS)

conformance: $(VENV)/ready-dev ## run the official MCP conformance suite on the toolkit and the product (needs npm)
	@$(BIN)/python -m compliance $(ARGS)

sbom: $(VENV)/ready-dev ## write the bill of materials into dist (CycloneDX)
	@$(BIN)/python packaging/sbom.py dist

mcpb: $(VENV)/ready-dev ## pack the bundle that desktop clients install
	@$(BIN)/python packaging/mcpb/build.py

docs: $(VENV)/ready-dev ## build the documentation into build/docs
	@cd $(SKILLS) && $(CURDIR)/$(BIN)/python -c "from evals.tables.examples import write_page; write_page()"
	@$(BIN)/mkdocs build --strict --quiet
	@echo "documentation: build/docs/index.html"

# The skills are installed from their folder; only what they need is pinned.
COMPILE := uv pip compile -q --universal --generate-hashes --no-header --no-annotate --no-emit-package comity-skills

lock: ## refresh the lock files (needs uv)
	$(COMPILE) --upgrade --all-extras --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --group build -c requirements.lock pyproject.toml -o requirements-run.lock
	$(COMPILE) --group build --group bench -c requirements.lock pyproject.toml -o requirements-bench.lock

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .import_linter_cache $(foreach place,. $(SKILLS),$(place)/.pytest_cache $(place)/.hypothesis)

$(VENV)/ready-run: requirements-run.lock pyproject.toml $(SKILLS)/pyproject.toml
	@$(PYTHON) .ci/setup.py $(VENV) requirements-run.lock
	@touch $@

$(VENV)/ready-bench: requirements-bench.lock $(VENV)/ready-dev
	@$(PYTHON) .ci/setup.py $(VENV) requirements-bench.lock
	@touch $@ $(VENV)/ready-run $(VENV)/ready-dev

$(VENV)/ready-dev: requirements.lock pyproject.toml $(SKILLS)/pyproject.toml
	@$(PYTHON) .ci/setup.py $(VENV) requirements.lock
	@touch $@ $(VENV)/ready-run
