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
SOAK_CUTS       ?= 2000
SOAK_DEVICES    ?= 20
SOAK_SWITCH_SECONDS ?= 28800
SOAK_RANDOM     ?= 300
SOAK_NODES      ?= 60
SOAK_READOUTS   ?= 60
SOAK_BOARDS     ?= 60
SOAK_CONTROL    ?= 60
SOAK_DAMAGE     ?= 300
BENCH           ?= all

.PHONY: help
help: ## List what there is
	@echo "make …"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# In the profile of the tests: it is built in a third of the time, and what is built serves `make test`.
.PHONY: demo
demo: ## Emulated boards → UDP → ordered hits, coincidences → a recording, its plot, a live page meanwhile (DEMO_SECONDS=10)
	$(CARGO) build --locked -p thalweg
	$(TARGET)/debug/thalweg demo --seconds $(DEMO_SECONDS)

# What is built is built once: one profile (dev, which is optimised) and one set of features serve all tests, and the program that
# Python and the browser drive is the one that the Rust tests were built with. Then the stages run beside each other. Every parser is
# fuzzed for a few seconds among the Rust tests, on the stable toolchain; `make fuzz` is the long run. With THALWEG_STRICT a test that
# cannot run here fails; without, it is counted and listed at the end.
STAGES := run-rust test-browser test-python test-page test-doc format
NOTES  := $(TARGET)/make-test
PROGRAMS := $(NOTES)/programs.json
STAGE  := tests/stage.sh $(NOTES)/times
export THALWEG_SKIPPED := $(NOTES)/skipped
# What `cargo clippy` sets for `cargo check`, with the arguments in the form that it gives them.
LINTED := RUSTC_WORKSPACE_WRAPPER=$(abspath tests/compiler.sh) CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

.PHONY: test
test: ## Everything that must hold before a change lands
	@rm -rf $(NOTES) && mkdir -p $(NOTES)
	tests/prepare.sh compiler
	+@tests/ungrouped.sh $(MAKE) --no-print-directory test-stages

.PHONY: test-stages
test-stages:
	+$(MAKE) --no-print-directory -j2 stage-prepare stage-build
	+@status=0; \
	$(MAKE) --no-print-directory -j4 --keep-going --output-sync=target $(addprefix stage-,$(STAGES)) || status=$$?; \
	tests/report.sh $(NOTES)/times $(NOTES)/skipped; \
	exit $$status

stage-%:
	@mkdir -p $(NOTES)
	@$(STAGE) $* $(MAKE) --no-print-directory $*

.PHONY: prepare
prepare: ## Install what tests need and this machine lacks
	tests/prepare.sh all $(VENV)

.PHONY: build
build: ## Every test program, and the program that they drive, with lints
	$(LINTED) CARGO=$(CARGO) tests/rust.py build $(PROGRAMS)

.PHONY: lint
lint: format clippy ## Format, house rules, lints

.PHONY: format
format:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	python3 tests/house_rules.py

.PHONY: clippy
clippy:
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings

.PHONY: test-rust
test-rust: ## Unit, property and black-box tests, models of the concurrent parts, short fuzzing
	$(MAKE) --no-print-directory build
	$(MAKE) --no-print-directory run-rust

.PHONY: run-rust
run-rust:
	THALWEG_MOTO=$(abspath $(VENV))/bin/moto_server THALWEG_WSGIDAV=$(abspath $(VENV))/bin/wsgidav tests/rust.py run $(PROGRAMS)

.PHONY: test-doc
test-doc: ## The examples in the documentation of the crates
	+$(LINTED) $(CARGO) test --workspace --locked --quiet --doc

# The packages build alone with VERIFY=verify, which takes as long as any first build.
VERIFY ?=
.PHONY: package-check
package-check: ## Every crate packed as a registry would have it, and no link broken in its documentation; with VERIFY=verify the command and the library are built out of the packages
	+RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --locked --quiet --no-deps
	tests/package.sh $(TARGET) $(VERIFY)

.PHONY: test-python
test-python: package ## Other programs read the recordings; the command end to end; the Python package
	THALWEG_BINARY=$(TARGET)/debug/thalweg timeout 900 $(PYTHON) -m pytest -q tests/python

MATURIN := $(abspath $(VENV))/bin/maturin
PACKAGE := cd python && CARGO_TARGET_DIR=$(TARGET)/python VIRTUAL_ENV=$(abspath $(VENV))

.PHONY: package
package: ## The Python package in the environment of the tests
	$(PACKAGE) $(LINTED) $(MATURIN) develop --quiet --locked

.PHONY: wheel
wheel: prepare ## The Python package as a wheel, in target/wheels
	$(PACKAGE) $(MATURIN) build --release --locked --out $(TARGET)/wheels

.PHONY: page
page: web/node_modules/.package-lock.json ## Build the live page into crates/monitor/page, which is committed
	cd web && npm run --silent build

.PHONY: generated
generated: web/node_modules/.package-lock.json ## Write anew what follows from types: crates/monitor/src/openapi.json, web/src/live/generated*.ts, docs/configuration
	THALWEG_GENERATE=1 $(CARGO) test --locked --quiet -p thalweg-monitor --lib the_description_is_what_the_types_give
	THALWEG_GENERATE=1 $(CARGO) test --locked --quiet -p thalweg-run --test run the_configuration_reference_is_what_the_schema_gives
	THALWEG_GENERATE=1 $(CARGO) test --locked --quiet -p thalweg-frontend --lib the_page_of_parameters_is_what_the_table_gives
	cd web && npm run --silent types

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --ignore-scripts

# The page is part of the binary by what is committed; this says whether that is what its sources give.
.PHONY: test-page
test-page: web/node_modules/.package-lock.json ## The live page: format and types, fits and drawings, the committed build
	cd web && npm run --silent check
	cd web && timeout 120 npm run --silent unit
	cd web && npm run --silent check-build

# The browser looks at THALWEG_BINARY where that can serve, else at a mock; with THALWEG_PAGE_PICTURES it keeps what it has seen there.
.PHONY: test-browser
test-browser: web/node_modules/.package-lock.json ## The live page of the real program in a real browser
	cd web && THALWEG_BINARY=$(TARGET)/debug/thalweg timeout 900 npm run --silent browser

.PHONY: pictures
pictures: web/node_modules/.package-lock.json ## Take the page's pictures in docs/images anew, of a run of ten minutes, and make them small
	$(CARGO) build --release --locked -p thalweg
	cd web && THALWEG_BINARY=$(TARGET)/release/thalweg THALWEG_PAGE_PICTURES=$(abspath docs/images) npm run --silent browser
	pngquant --force --ext .png --speed 1 64 docs/images/page-*.png

.PHONY: latency
latency: prepare web/node_modules/.package-lock.json ## From a hit on the wire to a count on the screen of a real browser
	$(CARGO) build --release --locked -p thalweg
	cd web && THALWEG_BINARY=$(TARGET)/release/thalweg node ../tests/web/latency.mjs

MDBOOK ?= mdbook
MDBOOK_VERSION := 0.4.52

.PHONY: docs
docs: ## Build the book into target/book, with mdbook
	@command -v $(MDBOOK) >/dev/null || { echo "mdbook is not installed: \`cargo install --locked --no-default-features mdbook --version $(MDBOOK_VERSION)\` builds it, then \`make docs\` again" >&2; exit 1; }
	$(MDBOOK) build --dest-dir $(TARGET)/book
	@echo "$(TARGET)/book/index.html"

.PHONY: deb
deb: ## A package for Debian and Ubuntu, in target/packages
	$(CARGO) build --release --locked -p thalweg
	packaging/deb.sh $(TARGET)/release/thalweg $(TARGET)/packages

.PHONY: container
container: ## A container image called thalweg, with podman or docker
	packaging/container.sh thalweg

.PHONY: bench
bench: ## Measure against the baselines; JSON in target/bench (BENCH=decode for one)
	$(CARGO) build --release --locked -p thalweg
	tests/bench.sh $(TARGET)/release/thalweg $(TARGET)/bench $(BENCH)

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZ_SECONDS=60
	tests/fuzz.sh $(FUZZ_SECONDS)

.PHONY: soak
soak: prepare ## Sanitizers, SOAK_SEEDS=10000 simulated systems of units, SOAK_CUTS=2000 copies that are cut or lose power at seeded points, 400 simulated maps of switches, SOAK_DEVICES=20 devices whose depth, rate and queues are hidden, one at 0.9 of what it carries over night (SOAK_SWITCH_SECONDS=28800), events under overload for SOAK_EVENT_SECONDS=60, SOAK_RANDOM=300 runs of random configurations with little memory and some trouble, SOAK_NODES=60 runs of random units whose nodes are killed, SOAK_READOUTS=60 of which readout nodes are killed, SOAK_BOARDS=60 runs whose boards die and come back, SOAK_CONTROL=60 servers whose operators press everything, SOAK_DAMAGE=300 damaged recordings through every command, a million IPbus sums through a hub that is killed, the original hub and device of IPbus where they are installed, a flight recorder for SOAK_RECORDER_SECONDS=600, then memory over SOAK_MINUTES=60 at SOAK_HITS_PER_S=10000000
	$(CARGO) build --release --locked -p thalweg
	tests/sanitize.sh $(TARGET)/sanitize
	THALWEG_SEEDS=$(SOAK_SEEDS) $(CARGO) test --release --locked -p thalweg-build --test build simulation::
	THALWEG_SHIP_SEEDS=$(SOAK_CUTS) $(CARGO) test --release --locked -p thalweg-ship -- simulation:: cuts:: s3_kills::
	THALWEG_SIMULATED_MAPS=400 $(CARGO) test --release --locked -p thalweg-qualify --lib simulated_maps -- --nocapture
	python3 tests/soak_random.py --binary $(TARGET)/release/thalweg --runs $(SOAK_RANDOM)
	python3 tests/soak_nodes.py --binary $(TARGET)/release/thalweg --runs $(SOAK_NODES)
	python3 tests/soak_readouts.py --binary $(TARGET)/release/thalweg --runs $(SOAK_READOUTS)
	python3 tests/soak_boards.py --binary $(TARGET)/release/thalweg --runs $(SOAK_BOARDS)
	python3 tests/soak_control.py --binary $(TARGET)/release/thalweg --runs $(SOAK_CONTROL)
	python3 tests/soak_damage.py --binary $(TARGET)/release/thalweg --runs $(SOAK_DAMAGE)
	$(PYTHON) tests/soak_events.py --binary $(TARGET)/release/thalweg --seconds $(SOAK_EVENT_SECONDS)
	$(PYTHON) tests/soak_ipbus.py --binary $(TARGET)/release/thalweg
	$(PYTHON) tests/peers/original_ipbus.py $(TARGET)/release/thalweg
	python3 tests/soak_recorder.py --binary $(TARGET)/release/thalweg --seconds $(SOAK_RECORDER_SECONDS)
	python3 tests/soak.py --binary $(TARGET)/release/thalweg --minutes $(SOAK_MINUTES) --hits-per-second $(SOAK_HITS_PER_S)
	python3 tests/soak_switch.py --binary $(TARGET)/release/thalweg --devices $(SOAK_DEVICES) --seconds $(SOAK_SWITCH_SECONDS) --report $(TARGET)/soak-switch.html
