# Two commands from a fresh clone do everything: `make demo` and `make test`. Both make their own virtual environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SOURCES := Cargo.toml Cargo.lock build.rs pyproject.toml $(shell find src python -type f -not -name '*.so' -not -path '*/__pycache__/*')

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# One line says what runs; cargo probes rustc through standard input, so it gets none.
CARGO := cargo
NO_INPUT := </dev/null

.DEFAULT_GOAL := help
.PHONY: help demo test test-rust test-python check lint slow strace bench fit clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.dev: pyproject.toml
	@echo "setting up $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' $(NO_INPUT)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev $(NO_INPUT)
	@touch $@

$(STAMP): $(VENV)/.dev $(SOURCES)
	@echo "building the extension in release mode; the first time takes a few minutes …"
	@$(BIN)/maturin develop --release --locked $(NO_INPUT) >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@touch $@

demo: $(STAMP)  ## the main job on a session that ships with the package: offline, no key
	@$(BIN)/mt-context demo

test: test-rust test-python  ## all tests

test-rust: $(VENV)/.dev
	$(CARGO) test --locked --quiet --no-default-features $(NO_INPUT)

# The crash tests let the disk refuse single system calls; without strace they are errors.
strace:
	@command -v strace >/dev/null || test "$$(id -u)" != 0 || { apt-get update -qq && apt-get install -y -qq strace; } $(NO_INPUT) >/dev/null
	@command -v strace >/dev/null || echo "strace is missing: apt-get install strace" >&2

test-python: $(STAMP) strace
	$(BIN)/python -m pytest -q

lint: $(STAMP)  ## format, clippy, ruff, types of the stub
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --quiet --all-targets --no-default-features $(NO_INPUT) -- -D warnings
	$(CARGO) clippy --locked --quiet --features python $(NO_INPUT) -- -D warnings
	$(BIN)/ruff check python tests benches scripts
	$(BIN)/ruff format --check python tests benches scripts
	$(BIN)/python -m mypy.stubtest mt_context._core

check: lint test  ## everything that must hold before a commit lands

slow: $(STAMP) strace  ## long campaigns: 10 000 kills, every system call refused, 1 GB files; prints the figures
	MT_CONTEXT_SLOW=1 $(CARGO) test --locked --quiet --release --no-default-features $(NO_INPUT) -- --show-output
	MT_CONTEXT_SLOW=1 HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -q --timeout 3600

bench: $(STAMP)  ## side-by-side figures, as ratios
	$(BIN)/python benches/run.py

fit: $(STAMP)  ## fit the estimator's table again on texts of this machine
	$(BIN)/python scripts/fit_estimator.py

clean:  ## remove everything that was built
	rm -rf $(VENV) target python/mt_context/_core*.so
