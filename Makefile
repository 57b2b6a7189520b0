# `make` alone lists what there is. Everything runs in .venv, which the first target sets up.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
export PYTHONPATH := .

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format protos oldest golden simulate bench day crash-points soak up down clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.done  ## Make .venv and install domo with everything it needs

$(VENV)/.done: pyproject.toml
	@sh scripts/setup.sh $(PYTHON) $(VENV) dev
	@touch $@

$(VENV)/.demo: pyproject.toml
	@sh scripts/setup.sh $(PYTHON) $(VENV) run
	@touch $@

# What the demo needs is a part of what setup installs, so either will do.
RUNS := $(if $(wildcard $(VENV)/.done),$(VENV)/.done,$(VENV)/.demo)

demo: $(RUNS)  ## Four silos train over gRPC: FedAvg, then DOMO; with dashboard
	@$(BIN)/python scripts/demo.py

test: setup  ## Run all tests
	@$(BIN)/python scripts/test.py

check: setup  ## Format, lint, types, layers, generated code, spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/protos.sh --check
	@$(BIN)/codespell core proto server client deploy docs examples experiments benchmarks \
	  tests scripts *.md

format: setup  ## Format the code and mend what ruff can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

protos: setup  ## Regenerate the gRPC code
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/protos.sh

oldest: setup  ## The tests of the wire with the oldest grpcio and protobuf that are allowed
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/oldest.sh

golden: setup  ## Replay the stored trajectories only
	@$(BIN)/pytest tests/golden

simulate: $(RUNS)  ## DOMO on digits in one process, no network
	@$(BIN)/domo simulate

bench: setup  ## Cost of a local step against torch's SGD
	@$(BIN)/python benchmarks/local_step.py

day: setup  ## A day of a federation in short: 60 faults over 200 rounds, and the same bytes: 20 minutes
	@$(BIN)/python -m benchmarks.day

crash-points: setup  ## Every kind of death at every instant of a commit: 10 minutes
	@CRASH_ALL=1 $(BIN)/pytest -q tests/integration/test_crash_points.py

soak: setup  ## Memory, threads and handles over a night and 200 rounds: 6 minutes
	@$(BIN)/python benchmarks/soak.py

up:  ## The testbed in containers: coordinator and four silos
	docker compose up --build

down:  ## Stop the testbed
	docker compose down

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
