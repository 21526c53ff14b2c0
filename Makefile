# Pillion's policy, as Kubewarden users expect it: `make policy.wasm`, `make annotated-policy.wasm`, `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := policy.wasm

CARGO ?= cargo
KWCTL ?= kwctl
TARGET := wasm32-wasip1
MODULE := target/$(TARGET)/release/pillion_policy.wasm
# What the module should weigh at most, in bytes, and what it may weigh until it does (docs/design.md): the second
# number only ever goes down.
GOAL := 400000
LIMIT := 470000
SOURCES := $(shell git ls-files 'src/*.rs' 'crates/core/*' 2>/dev/null) Cargo.toml Cargo.lock

.PHONY: fmt lint test e2e-tests run bench size deny clean

policy.wasm: $(SOURCES)
	$(CARGO) build --package pillion-policy --target=$(TARGET) --release --locked
	cp $(MODULE) $@
	@$(MAKE) --no-print-directory size

size:
	@bytes=$$(wc -c < policy.wasm); echo "policy.wasm: $$bytes bytes (goal $(GOAL), at most $(LIMIT))"; test "$$bytes" -le $(LIMIT) || { echo "policy.wasm is too large" >&2; exit 1; }

annotated-policy.wasm: policy.wasm metadata.yml README.md
	@command -v $(KWCTL) >/dev/null || { echo "annotated-policy.wasm needs kwctl (set KWCTL to where it is)" >&2; exit 1; }
	$(KWCTL) annotate --metadata-path metadata.yml --usage-path README.md --output-path $@ policy.wasm

fmt:
	$(CARGO) fmt --all -- --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --package pillion-policy --target=$(TARGET) --release --locked -- -D warnings

# Every test that goes through the module gets the one that `make` has just built.
test: fmt lint policy.wasm
	PILLION_MODULE=$(CURDIR)/policy.wasm $(CARGO) test --workspace --locked

e2e-tests: annotated-policy.wasm
	KWCTL=$(KWCTL) bats e2e.bats

# The log agent of test_data, injected into a Pod as an API server sent it.
run: policy.wasm
	$(CARGO) run --quiet --package pillion-host --example inject -- policy.wasm test_data/settings-log-agent.json test_data/pod-create-review.json

bench: policy.wasm
	$(CARGO) run --quiet --package pillion-host --example bench -- policy.wasm

deny:
	$(CARGO) deny check

clean:
	$(CARGO) clean
	rm -f policy.wasm annotated-policy.wasm
