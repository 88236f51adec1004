# `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest
ROOMS := broker chaos clients lograft metadata proto raft runtime storage

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with lograft and every extra (quick when nothing changed)
	@PYTHON=$(PYTHON) tools/setup

test: lint typecheck ## set everything up, run every test
	$(PYTEST) --durations=10 -n 2 --dist worksteal tests

test-unit: setup ## unit, contract and property tests only
	$(PYTEST) --durations=10 -n 2 tests/unit tests/contract tests/property

lint: setup ## ruff: style and formatting
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .

format: setup ## let ruff mend what it can
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

# mypy cannot see packages through package-dir, so it is shown a tree laid out as the installed package is.
typecheck: setup ## mypy, strict
	@rm -rf .typecheck && mkdir -p .typecheck/lograft
	@for room in $(filter-out lograft,$(ROOMS)); do ln -s ../../$$room .typecheck/lograft/$$room; done
	@for file in lograft/*; do ln -s ../../$$file .typecheck/$$file; done
	MYPYPATH=.typecheck $(VENV)/mypy -p lograft

proto: setup ## generate code from proto/*.proto
	$(VENV)/python tools/generate_proto.py

test-integration: setup ## real processes and real files only
	$(PYTEST) --durations=10 tests/integration

SEEDS ?= 200
sim: setup ## all simulators, SEEDS=n of each; or the story of one of Raft's, SEED=n [TIER=cores|messages|streams]
	$(VENV)/python tools/simulate_raft.py $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(TIER),--tier $(TIER))
	$(if $(SEED)$(TIER),,$(VENV)/python tools/simulate_metadata.py --seeds $(SEEDS))
	$(if $(SEED)$(TIER),,$(VENV)/python tools/simulate_cluster.py --seeds $(SEEDS))

sim-metadata: setup ## controllers and brokers under simulation: SEEDS=n, or the story of one, SEED=n
	$(VENV)/python tools/simulate_metadata.py $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

sim-cluster: setup ## whole clusters with clients under simulation: SEEDS=n, or the story of one, SEED=n
	$(VENV)/python tools/simulate_cluster.py $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

bench-storage: setup ## batch codec and partition log, against a bare write and read loop
	$(VENV)/python benchmarks/storage.py

bench-raft: setup ## a cluster of three processes, against a bare LMDB commit and a bare gRPC round trip
	$(VENV)/python benchmarks/raft.py

bench-metadata: setup ## three controllers: 10,000 partitions created, leaders elected anew, image loaded
	$(VENV)/python benchmarks/metadata.py

bench-broker: setup ## three nodes: throughput, latency, reading, failover, idle cost, against a bare gRPC stream
	$(VENV)/python benchmarks/broker.py

bench-clients: setup ## the Python clients: rates, processor time and latency, against confluent-kafka
	$(VENV)/python benchmarks/clients.py

clean: ## remove all that make made
	rm -rf .venv .typecheck .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup test test-unit test-integration sim sim-metadata sim-cluster lint format typecheck proto bench-storage bench-raft bench-metadata bench-broker bench-clients clean
