# Pillion's policy, as Kubewarden users expect it: `make policy.wasm`, `make annotated-policy.wasm`, `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := policy.wasm

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
TARGET := wasm32-wasip1
MODULE := $(TARGET_DIR)/$(TARGET)/release/pillion_policy.wasm
# What the module may weigh, in bytes (docs/design.md).
LIMIT := 1200000
# The crates that the module is made of, src/ apart.
RULES := admission bundle gardener identity inject json kubernetes pattern sidecarset
SOURCES := $(shell git ls-files 'src/*.rs' $(addprefix crates/,$(addsuffix /*,$(RULES))) '.cargo/*' 2>/dev/null) Cargo.toml Cargo.lock

# What annotates the module and runs it in the bats suite: kwctl where it is installed, else the pillion of this folder,
# which KWCTL=pillion chooses in any case.
KWCTL ?= $(or $(shell command -v kwctl 2>/dev/null),pillion)
# A debug build: most of its time goes into compiling wasmtime, and `make test` needs that one, too.
PILLION := $(abspath $(TARGET_DIR)/debug/pillion)
RUNNER := $(if $(filter pillion,$(KWCTL)),$(PILLION),$(KWCTL))
NEEDS_PILLION := $(if $(filter pillion,$(KWCTL)),pillion)
# What the benchmarks compare the module with. In a folder of its own, since Kubewarden's release workflow takes every
# module that stands beside ours.
BASELINE := $(TARGET_DIR)/baseline/$(TARGET)/dist/pillion_accept_everything.wasm
# The module that goes into pillion, and that the tests run: the one that `make` has just built.
export PILLION_MODULE := $(CURDIR)/policy.wasm

.PHONY: pillion fmt lint unit-tests e2e-tests test test-cluster fuzz servers run bench bench-docs bench-counts cost bench-load bench-scale bench-scale-docs load size deny tools clean

# What cargo makes is the module that is tested, measured, embedded and released. Kubewarden's release workflow builds it
# the same way.
policy.wasm: $(SOURCES)
	$(CARGO) build --target=$(TARGET) --release --locked
	cp $(MODULE) $@
	@$(MAKE) --no-print-directory size

size:
	@bytes=$$(wc -c < policy.wasm); echo "policy.wasm: $$bytes bytes (limit: $(LIMIT))"; test "$$bytes" -lt $(LIMIT) || { echo "policy.wasm is too large" >&2; exit 1; }

# As a part of the whole workspace, tests included: built alone, it has its libraries with fewer features, and they would
# be compiled a second time for the tests. Cargo builds a command for the tests of its package.
pillion: policy.wasm
	$(CARGO) test --workspace --locked --test help --no-run

annotated-policy.wasm: policy.wasm metadata.yml README.md | $(NEEDS_PILLION)
	$(RUNNER) annotate --metadata-path metadata.yml --usage-path README.md --output-path $@ policy.wasm

# Needs kwctl, whose answer is what Artifact Hub and Rancher get; a test holds it against metadata.yml.
artifacthub-pkg.yml: metadata.yml questions-ui.yml
	kwctl scaffold artifacthub --metadata-path metadata.yml --questions-path questions-ui.yml --output $@

fmt:
	$(CARGO) fmt --all -- --check

# pillion's build script looks for the module, so that comes first.
lint: policy.wasm
	$(CARGO) clippy --workspace --all-targets --features pillion-testenv/cluster --locked -- -D warnings
	$(CARGO) clippy --package pillion-policy --target=$(TARGET) --release --locked -- -D warnings

unit-tests: policy.wasm
	$(CARGO) test --workspace --locked

e2e-tests: tools annotated-policy.wasm | $(NEEDS_PILLION)
	KWCTL=$(RUNNER) bats e2e.bats

deny:
	$(CARGO) deny check

# Everything, one after the other, what is quick first. Advisories change without us: `make deny` asks for them.
test: tools
	$(MAKE) fmt lint
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check bans licenses sources; else echo "cargo-deny is not installed: dependencies are not checked"; fi
	$(MAKE) unit-tests
	$(MAKE) e2e-tests

# The tests on a real API server: needs Go for the servers (testenv/README.md), which are built once.
# Some of them run the command beside the cluster, which cargo builds for tests of its own package alone.
test-cluster: pillion servers
	$(CARGO) test --workspace --locked --features pillion-testenv/cluster --test 'cluster_*'

# Generated inputs for the module and the parsers of the core, FUZZ_SECONDS for each of five targets, one after the other.
# FUZZ_SEED=1000 makes others, FUZZ_FLAGS="--test fuzz_bundle" runs one target.
FUZZ_SECONDS ?= 60
FUZZ_FLAGS ?= --test 'fuzz_*'
fuzz: policy.wasm
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --workspace --locked --no-fail-fast $(FUZZ_FLAGS) -- --nocapture

servers:
	@testenv/build

tools:
	@for tool in bats jq; do command -v $$tool >/dev/null || { echo "$$tool is missing: sudo apt-get install -y bats jq" >&2; exit 1; }; done

# The log agent, injected into a Pod as an API server sent it to a webhook, as a diff.
run: pillion
	$(PILLION) inject test_data/pod-create-review.json --settings test_data/settings-log-agent.json --diff

$(BASELINE): crates/accept-everything/src/lib.rs crates/accept-everything/Cargo.toml Cargo.lock
	$(CARGO) build --package pillion-accept-everything --target=$(TARGET) --profile dist --target-dir $(TARGET_DIR)/baseline --locked

BENCH := $(CARGO) run --quiet --package pillion-bench --profile timing --locked -- --module policy.wasm --baseline $(BASELINE)

# Ten minutes, on a machine that does nothing else; BENCH_FLAGS="--filter bundle/100/" takes some rows, "--check" fails
# where a promise is not kept.
bench: policy.wasm $(BASELINE)
	$(BENCH) report $(BENCH_FLAGS)

# The same, into docs/benchmarks.md.
bench-docs: policy.wasm $(BASELINE)
	$(BENCH) report --docs docs/benchmarks.md $(BENCH_FLAGS)

# Instructions and memory alone: seconds, and the same numbers everywhere.
bench-counts: policy.wasm $(BASELINE)
	$(BENCH) counts $(BENCH_FLAGS)

# No input costs more than its length: every list, map, text and number of every kind of request and of the settings grows
# alone, in every way, then each with each. Hours; COST_EVERY=100 takes one case of a hundred, the same ones each time, and
# findings are printed as they come. `make test` has what takes a minute (crates/bench/tests/cost). The build is that of
# the tests: the code under test is the module.
COST_EVERY ?= 1
cost: policy.wasm
	PILLION_COST_EVERY=$(COST_EVERY) $(CARGO) test --package pillion-bench --locked --features cost --test cost -- --nocapture $(COST_FLAGS)

# The same load, a twentieth of it, with the build that the tests use.
load: pillion
	$(PILLION) bench --reviews 5000 --concurrency 32

# Load for the admission server, with an optimised build: every answer is checked, and memory has to stay flat.
bench-load: policy.wasm
	$(CARGO) run --quiet --profile dist --package pillion --locked -- bench --reviews 100000 --concurrency 32

# The controllers in a cluster of 2,000 namespaces, 200 SidecarSets and 10,000 Pods: twenty minutes, ten of which nothing
# changes. SCALE_FLAGS="--namespaces 300 --sidecar-sets 60 --pods 1500 --rest 60" takes three. Their program is optimised,
# the one that makes the cluster is that of the tests.
bench-scale: policy.wasm servers
	$(CARGO) build --profile dist --package pillion --locked
	$(CARGO) bench --workspace --profile dev --locked --features pillion-testenv/cluster --bench scale -- --program $(abspath $(TARGET_DIR))/dist/pillion $(SCALE_DOCS) $(SCALE_FLAGS)

# The same, into docs/benchmarks.md.
bench-scale-docs: SCALE_DOCS := --docs $(CURDIR)/docs/benchmarks.md
bench-scale-docs: bench-scale

clean:
	$(CARGO) clean
	rm -f policy.wasm annotated-policy.wasm
