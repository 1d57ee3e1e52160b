# thalweg: what one types here. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO  ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
VENV   := .venv
PYTHON := $(VENV)/bin/python

# Settable on the command line: make demo DEMO_SECONDS=30, make soak SOAK_MINUTES=5, …
DEMO_SECONDS    ?= 10
FUZZ_SECONDS    ?= 60
SOAK_MINUTES    ?= 60
SOAK_HITS_PER_S ?= 10000000
SOAK_EVENT_SECONDS ?= 60
SOAK_RECORDER_SECONDS ?= 600
SOAK_SEEDS      ?= 10000
BENCH           ?= all

.PHONY: help
help: ## List what there is
	@echo "make …"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Emulated boards → UDP → ordered hits, coincidences → a recording, its plot, a live page meanwhile (DEMO_SECONDS=10)
	$(CARGO) build --release --locked -p thalweg
	$(TARGET)/release/thalweg demo --seconds $(DEMO_SECONDS)

# The order is the order of cost: what fails soonest comes first. One profile (dev, which is optimised) serves the Rust
# and the Python tests, so that the product is compiled once. Every parser is fuzzed for a few seconds among the Rust
# tests, on the stable toolchain; `make fuzz` is the long run.
.PHONY: test
test: prepare lint test-rust test-models test-python test-page ## Everything that must hold before a change lands
	@echo "make test: everything passed"

.PHONY: prepare
prepare: ## Install what tests need and this machine lacks
	tests/prepare.sh $(VENV)

.PHONY: lint
lint: ## Format, lints, house rules
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	python3 tests/house_rules.py

.PHONY: test-rust
test-rust: ## Unit, property and black-box tests, short fuzzing
	timeout 1500 $(CARGO) test --workspace --locked --no-fail-fast

.PHONY: test-models
test-models: ## The pool and the rings under the loom model checker
	LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom \
	    timeout 900 $(CARGO) test --locked --release -p thalweg-data --lib model

.PHONY: test-python
test-python: ## Other programs read the recordings; the command end to end
	$(CARGO) build --locked -p thalweg
	THALWEG_BINARY=$(TARGET)/debug/thalweg timeout 900 $(PYTHON) -m pytest -q tests/python

.PHONY: page
page: web/node_modules/.package-lock.json ## Build the live page into crates/monitor/page, which is committed
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --ignore-scripts

# The page is part of the binary by what is committed; this says whether that is what its sources give. The browser looks at
# THALWEG_BINARY where that can serve, else at a mock; with THALWEG_PAGE_PICTURES it keeps what it has seen there.
.PHONY: test-page
test-page: web/node_modules/.package-lock.json ## The live page: format and types, fits and drawings, the committed build, a real browser
	cd web && npm run --silent check
	cd web && timeout 120 npm run --silent unit
	cd web && npm run --silent check-build
	$(CARGO) build --locked -p thalweg
	cd web && THALWEG_BINARY=$(TARGET)/debug/thalweg timeout 600 npm run --silent browser

.PHONY: pictures
pictures: web/node_modules/.package-lock.json ## Take the page's pictures in docs/images anew, and make them small
	$(CARGO) build --release --locked -p thalweg
	cd web && THALWEG_BINARY=$(TARGET)/release/thalweg THALWEG_PAGE_PICTURES=$(abspath docs/images) npm run --silent browser
	pngquant --force --ext .png --speed 1 64 docs/images/page-*.png

.PHONY: latency
latency: prepare web/node_modules/.package-lock.json ## From a hit on the wire to a count on the screen of a real browser
	$(CARGO) build --release --locked -p thalweg
	cd web && THALWEG_BINARY=$(TARGET)/release/thalweg node ../tests/web/latency.mjs

.PHONY: bench
bench: ## Measure against the yardsticks; JSON in target/bench (BENCH=decode for one)
	$(CARGO) build --release --locked -p thalweg
	tests/bench.sh $(TARGET)/release/thalweg $(TARGET)/bench $(BENCH)

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZ_SECONDS=60
	tests/fuzz.sh $(FUZZ_SECONDS)

.PHONY: soak
soak: prepare ## SOAK_SEEDS=10000 simulated systems of units, events under overload for SOAK_EVENT_SECONDS=60, a flight recorder for SOAK_RECORDER_SECONDS=600, then memory over SOAK_MINUTES=60 at SOAK_HITS_PER_S=10000000
	$(CARGO) build --release --locked -p thalweg
	THALWEG_SEEDS=$(SOAK_SEEDS) $(CARGO) test --release --locked -p thalweg-build --test build simulation::
	$(PYTHON) tests/soak_events.py --binary $(TARGET)/release/thalweg --seconds $(SOAK_EVENT_SECONDS)
	python3 tests/soak_recorder.py --binary $(TARGET)/release/thalweg --seconds $(SOAK_RECORDER_SECONDS)
	python3 tests/soak.py --binary $(TARGET)/release/thalweg --minutes $(SOAK_MINUTES) --hits-per-second $(SOAK_HITS_PER_S)
