# `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?=
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest
ROOMS := broker chaos cli clients lograft metadata proto raft rpc runtime spark storage

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with lograft and every extra (quick when nothing changed); PYTHON=python3.13 for another version
	@PYTHON=$(PYTHON) tools/setup

demo: setup ## the whole story in about a minute: three nodes, a leader killed, nothing lost, Spark; leaves nothing running
	@$(VENV)/python examples/demo/demo.py

define WHAT_NEXT

What to try next (the first line once in each shell):
  export LOGRAFT_BOOTSTRAP=localhost:9092,localhost:9093,localhost:9094 PATH=$$PWD/.venv/bin:$$PATH
  lograft create topic orders --partitions 3
  seq 1000 | lograft produce orders
  lograft consume orders --from earliest --exit | tail -3
  lograft describe topic orders
  lograft dev kill 2; lograft get partitions --under-replicated
  lograft dev restart 2; lograft wait topic/orders --for InSync
  lograft top
`lograft --help` shows the rest; `make down` stops the cluster, and keeps its data.
endef
export WHAT_NEXT
up: setup ## a cluster of three nodes on ports 9092 to 9094 that stays, and what to try with it
	@$(VENV)/lograft dev up --detach
	@echo "$$WHAT_NEXT"

down: ## stop the cluster that `make up` started; its data stays
	@$(VENV)/lograft dev down

test: setup ## lint, types, every test, the same each time, and a summary; PYTHON=python3.13 for another version
	@$(VENV)/python tools/test_run.py

test-unit: setup ## unit, contract and property tests only
	$(PYTEST) --durations=10 -n 2 tests/unit tests/contract tests/property

lint: setup ## ruff, and the width of Markdown
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/python tools/markdown_width.py

format: setup ## let ruff mend what it can
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

ratchet: setup ## store what has fallen of the figures in tests/tidy/known.toml; the tidy test asks for it
	PYTHONPATH=tests $(VENV)/python -m tidy.known

# mypy cannot see packages through package-dir, so it is shown a tree laid out as the installed package is.
typecheck: setup ## mypy, strict: the product, then the tests and tools
	@rm -rf .typecheck && mkdir -p .typecheck/lograft
	@for room in $(filter-out lograft,$(ROOMS)); do ln -s ../../$$room .typecheck/lograft/$$room; done
	@for file in lograft/*; do ln -s ../../$$file .typecheck/$$file; done
	MYPYPATH=.typecheck $(VENV)/mypy -p lograft
	MYPYPATH=.typecheck:tests:tools:benchmarks $(VENV)/mypy tests tools

proto: setup ## generate code from proto/*.proto
	$(VENV)/python tools/generate_proto.py

sync-clients: setup ## derive the synchronous clients from the awaitable ones
	$(VENV)/python tools/generate_sync_clients.py

test-integration: setup ## real processes and real files only
	$(PYTEST) --durations=10 tests/integration

test-spark: setup ## Spark against a real cluster only; needs Java 17 or later
	$(PYTEST) --durations=10 tests/spark

raft-scripts: setup ## record what the Raft scenarios do now; review the difference as text
	PYTHONPATH=tests $(VENV)/python -m support.raft_script

transcripts: setup ## type the transcripts again, and make docs/cli.md, docs/cli-errors.md and docs/runbooks.md of them; ONLY=name
	$(VENV)/python tools/transcripts.py $(ONLY)

SEEDS ?= 200
sim: setup ## all simulators, SEEDS=n of each; or the story of one of Raft's, SEED=n [TIER=cores|messages|streams]
	$(VENV)/python tools/simulate_raft.py $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(TIER),--tier $(TIER))
	$(if $(SEED)$(TIER),,$(VENV)/python tools/simulate_metadata.py --seeds $(SEEDS))
	$(if $(SEED)$(TIER),,$(VENV)/lograft chaos simulate --seeds $(SEEDS))

SOAK ?= 10m
soak: setup ## everything random from fresh seeds, SOAK=10m; what replays a failure is added to soak-failures.txt
	nice -n 10 $(VENV)/python tools/soak.py $(SOAK)

CHAOS ?= 90s
ROUNDS ?= 1
chaos: setup ## real processes through all stories, CHAOS=90s each, ROUNDS=1; run again, it goes on with the rest
	nice -n 10 $(VENV)/lograft chaos campaign --duration $(CHAOS) --rounds $(ROUNDS) --report .chaos

sim-metadata: setup ## controllers and brokers under simulation: SEEDS=n, or the story of one, SEED=n
	$(VENV)/python tools/simulate_metadata.py $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

sim-cluster: setup ## whole clusters with clients under simulation: SEEDS=n, or the story of one, SEED=n
	$(VENV)/lograft chaos simulate $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

CAMPAIGN ?= campaign.jsonl
campaign: setup ## 3,000 simulated clusters, in as many sittings as it takes: CAMPAIGN=file keeps what was run
	nice -n 19 $(VENV)/lograft chaos simulate --campaign $(CAMPAIGN) --jobs 1

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

bench-spark: setup ## Spark reading and writing, against Parquet and against rows that are made up
	$(VENV)/python benchmarks/spark.py

# The peers' clients are in an extra of their own: nobody else needs them. ARGS="--quick", or whatever --help shows.
bench-compare: setup ## lograft beside Kafka, NATS JetStream and Redis Streams; ARGS="--quick --docs"
	@$(VENV)/python -c 'import confluent_kafka, hiredis, matplotlib, nats, redis' 2>/dev/null || \
	    $(VENV)/python -m pip install -q --disable-pip-version-check --editable '.[bench]'
	PYTHONPATH=benchmarks $(VENV)/python -m compare $(ARGS)

bench: bench-storage bench-raft bench-metadata bench-broker bench-clients bench-spark ## all of these, one after the other

clean: ## remove all that make made
	rm -rf .venv .bench .chaos .typecheck .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo up down bench transcripts raft-scripts soak test test-unit test-integration test-spark sim chaos sim-metadata sim-cluster campaign lint format ratchet typecheck proto sync-clients bench-storage bench-raft bench-metadata bench-broker bench-clients bench-spark bench-compare clean
