# Pillion's policy, as Kubewarden users expect it: `make policy.wasm`, `make annotated-policy.wasm`, `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := policy.wasm

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
TARGET := wasm32-wasip1
MODULE := $(TARGET_DIR)/$(TARGET)/release/pillion_policy.wasm
# A module above this size, in bytes, is a mistake in the build: no user feels less (docs/design.md).
LIMIT := 4000000

# The program that annotates the module and runs it in the bats suite: kwctl if it is installed, else the pillion of
# this folder. KWCTL=pillion always chooses pillion.
KWCTL ?= $(or $(shell command -v kwctl 2>/dev/null),pillion)
# A debug build: compiling wasmtime takes most of its time, and `make test` needs the same build.
PILLION := $(abspath $(TARGET_DIR)/debug/pillion)
RUNNER := $(if $(filter pillion,$(KWCTL)),$(PILLION),$(KWCTL))
NEEDS_PILLION := $(if $(filter pillion,$(KWCTL)),tested-pillion)
# The artifacts with a part of the module's work, besides the policy that injects: the folders below artifacts/.
ARTIFACTS := assert exec guards images shoots token-requests token-secrets
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/v\1/p' Cargo.toml)
# The benchmarks compare the module with this one. It has its own folder, so that it does not rebuild ours.
BASELINE := $(TARGET_DIR)/baseline/$(TARGET)/baseline/pillion_accept_everything.wasm
# pillion embeds this module, and the tests run it: the module that `make` has just built.
export PILLION_MODULE := $(CURDIR)/policy.wasm

.PHONY: FORCE pillion tested-pillion annotated artifacts-renew reproducible dist workflows fmt lint lint-and-module clippy licences unit-tests-build unit-tests e2e-tests test test-cluster test-versions test-skew test-node whole fuzz servers windows run bench bench-docs bench-counts cost bench-load bench-load-docs bench-faults bench-scale bench-scale-docs bench-growth bench-growth-docs bench-node load size deny site clean

# Cargo's output is the module that is tested, measured, embedded and released. Paths of this machine do not get into it
# (.ci/remap). CI builds it once: BUILT_MODULE=FILE takes a module that exists. Cargo knows which files the module is
# compiled from, so it is always asked. The file is replaced only if it changes, and in one step: another make may be
# reading it.
ifneq ($(BUILT_MODULE),)
policy.wasm: FORCE
	@$(call replace,$(BUILT_MODULE))
else
policy.wasm: FORCE
	@tools/setup module
	$(CARGO) build --target=$(TARGET) --release --locked --config "target.$(TARGET).rustflags=$$(.ci/remap toml)"
	@$(call replace,$(MODULE))
endif
	@$(MAKE) --no-print-directory size
replace = cmp -s "$1" $@ || { cp "$1" $@.$$$$ && mv $@.$$$$ $@; }

FORCE:

size:
	@bytes=$$(wc -c < policy.wasm); echo "policy.wasm: $$bytes bytes"; test "$$bytes" -lt $(LIMIT) || { echo "policy.wasm is larger than $(LIMIT) bytes: the build must have gone wrong" >&2; exit 1; }

# The command line, target/debug/pillion.
pillion: policy.wasm
	$(CARGO) build --package pillion --locked

# The same as a part of the whole workspace, including tests: alone, it would use its libraries with fewer features, and
# cargo would compile them a second time for the tests. Cargo builds a command for the tests of its package.
tested-pillion: policy.wasm
	$(CARGO) test --workspace --locked --test cli --no-run

# Builds the module a second time, in another folder, and compares.
reproducible: policy.wasm
	.ci/reproducible

# The program as it is released, for a target of rustc: make dist DIST=x86_64-unknown-linux-musl.
DIST ?= $(shell rustc -vV | sed -n 's/^host: //p')
dist: policy.wasm
	.ci/release/build $(DIST) $(DIST_FLAGS)

# The same module with the metadata of each artifact.
annotated: annotated-policy.wasm $(ARTIFACTS:%=annotated-%.wasm)

# The usage text in the module is read where the repository's other documents are not.
annotated-policy.wasm: policy.wasm metadata.yml README.md .ci/release/usage | $(NEEDS_PILLION)
	@mkdir -p $(TARGET_DIR)/usage
	.ci/release/usage README.md $(VERSION) > $(TARGET_DIR)/usage/policy.md
	"$(RUNNER)" annotate --metadata-path metadata.yml --usage-path $(TARGET_DIR)/usage/policy.md --output-path $@ policy.wasm

$(ARTIFACTS:%=annotated-%.wasm): annotated-%.wasm: policy.wasm artifacts/%/metadata.yml artifacts/%/README.md .ci/release/usage | $(NEEDS_PILLION)
	@mkdir -p $(TARGET_DIR)/usage
	.ci/release/usage artifacts/$*/README.md $(VERSION) > $(TARGET_DIR)/usage/$*.md
	"$(RUNNER)" annotate --metadata-path artifacts/$*/metadata.yml --usage-path $(TARGET_DIR)/usage/$*.md --output-path $@ policy.wasm

# Writes artifacthub-pkg.yml of all artifacts, and the forms of those below artifacts/.
artifacts-renew: policy.wasm
	PILLION_RENEW=1 $(CARGO) test --workspace --locked --test cli packaging::artifacts

# The workflows, as actionlint and zizmor see them. testenv/build builds actionlint; zizmor is a program of PyPI
# (.ci/zizmor.txt).
ACTIONLINT ?= $(or $(shell command -v actionlint 2>/dev/null),$(TARGET_DIR)/testenv/bin/actionlint)
ZIZMOR ?= $(shell command -v zizmor 2>/dev/null)
workflows:
	@command -v $(ACTIONLINT) >/dev/null || { echo "actionlint is missing: \"make servers\" builds it" >&2; exit 1; }
	$(ACTIONLINT) -color
ifneq ($(ZIZMOR),)
	$(ZIZMOR) --offline --no-progress --persona pedantic .github
else
	@echo "zizmor is not installed: permissions and templates in workflows are not checked; pip install --requirement .ci/zizmor.txt"
endif

fmt:
	@tools/setup lint
	$(CARGO) fmt --all -- --check

# What needs no test to run: format, clippy, and the licences of dependencies.
lint: fmt clippy licences

# pillion's build script copies policy.wasm, but clippy does not look into it: an empty file will do. The module's own
# package is checked for the module's target.
clippy:
	@tools/setup lint
	@test -e policy.wasm || : > policy.wasm
	$(CARGO) clippy --workspace --all-targets --features pillion-testenv/cluster --locked -- -D warnings
	$(CARGO) clippy --package pillion-policy --target=$(TARGET) --locked -- -D warnings
	@test -s policy.wasm || rm policy.wasm

# Builds the module meanwhile: its last step uses one processor.
lint-and-module:
	@$(MAKE) --no-print-directory policy.wasm & module=$$!; \
	  $(MAKE) --no-print-directory lint || { kill $$module; exit 1; }; wait $$module

# Without --workspace, cargo-deny would look only at the package of the module.
DENY := $(CARGO) deny --workspace --all-features check

# Advisories change independently of the code: `make deny` checks them.
licences:
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(DENY) bans licenses sources; else echo "cargo-deny is not installed: dependencies are not checked"; fi

unit-tests-build: policy.wasm
	$(CARGO) test --workspace --locked --no-run

unit-tests: policy.wasm
	@tools/setup test
	$(CARGO) test --workspace --locked

e2e-tests: annotated-policy.wasm annotated-exec.wasm | $(NEEDS_PILLION)
	@tools/setup test
	KWCTL="$(RUNNER)" bats e2e.bats

deny:
	$(DENY)

# The documentation, as mdBook shows it, in target/site: fails if a link, an anchor, a picture or a code block is wrong.
# `make test` checks the same.
site:
	$(CARGO) run --quiet --package pillion-site --locked
	@echo "target/site/index.html"

# All tests, except those on a cluster. `make lint` checks the code without running it.
test:
	@tools/setup test
	@echo "make test takes about 12 minutes on two idle cores the first time, and a third of that later. Only what is missing is downloaded."
	@tools/parts 'make test' \
	  'compile the module' '$(MAKE) --no-print-directory policy.wasm' \
	  'compile the tests' '$(MAKE) --no-print-directory unit-tests-build' \
	  'run the tests' '$(MAKE) --no-print-directory unit-tests' \
	  'run the module in the bats suite' '$(MAKE) --no-print-directory e2e-tests'

# The tests on a real API server. They need Go for the servers (testenv/README.md), which are built once. TESTS=rollout
# runs those with this word in their names.
TESTS ?=
test-cluster: policy.wasm servers
	testenv/run-tests $(TESTS)

# The tests in which versions of Kubernetes can differ, on these versions (testenv/versions). Builds their servers: a
# quarter of an hour for each on two cores, once.
VERSIONS ?= $(notdir $(wildcard testenv/versions/*))
test-versions: policy.wasm servers
	@testenv/build $(VERSIONS) >/dev/null
	testenv/run-versions $(VERSIONS)

# The tests in which containers run, on real nodes: containerd and kubelet on this machine (testenv/README.md). They need
# Linux and root. Without root: sudo --preserve-env=HOME,PATH make test-node
test-node: policy.wasm servers
	@tools/setup node
	testenv/run-tests --nodes $(TESTS)

# Judges all cases of the tests that judge a sample by default: long properties, and the faults of the controllers. Takes
# more than an hour.
whole:
	PILLION_WHOLE=1 $(MAKE) unit-tests
	PILLION_WHOLE=1 $(MAKE) test-cluster

# Generated inputs for the module and the parsers, FUZZ_SECONDS for each of five targets, one after the other.
# FUZZ_SEED=1000 gives other inputs, FUZZ_FILTER=bundle:: runs one target.
FUZZ_SECONDS ?= 60
FUZZ_FILTER ?=
fuzz: policy.wasm
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --workspace --locked --test fuzz -- $(FUZZ_FILTER) --skip cost:: --nocapture --test-threads 1

# Parts of two versions beside each other: those of this commit, and those of EARLIER, by default the commit of
# testenv/earlier. Its command line is built first, in some five minutes.
EARLIER ?=
test-skew: policy.wasm servers
	@testenv/skew $(EARLIER)
	testenv/run-tests skew::

servers:
	@tools/setup cluster
	@testenv/build
	@testenv/earlier

# Whether pillion compiles for Windows, without the commands for clusters. Needs the target of rustup and MinGW-w64.
windows: policy.wasm
	@tools/setup windows
	$(CARGO) check --package pillion --no-default-features --target x86_64-pc-windows-gnu --locked

# Shows the difference that Pillion makes to a Pod. The program calls the rules directly: it needs neither the module nor
# the host that runs it, so that it is built in a minute.
FIRST_LOOK = $(abspath $(TARGET_DIR))/debug/pillion-first-look
run:
	@tools/setup run
	@test -x "$(FIRST_LOOK)" || echo "Building what shows the difference: one to three minutes on two cores. This is done once, and downloads 70 crates." >&2
	@$(CARGO) build --package pillion-first-look --locked || { echo "If a download failed: the first build needs the network, once." >&2; exit 1; }
	@echo "The difference that Pillion makes to the Deployment in examples/identity-isolate/app.yaml:" >&2
	@"$(FIRST_LOOK)" examples/identity-isolate

$(BASELINE): crates/accept-everything/src/lib.rs crates/accept-everything/Cargo.toml Cargo.lock
	$(CARGO) build --package pillion-accept-everything --target=$(TARGET) --profile baseline --target-dir $(TARGET_DIR)/baseline --locked

BENCH := $(CARGO) run --quiet --package pillion-bench --profile dist --locked -- --module policy.wasm --baseline $(BASELINE)

# Takes ten minutes on an idle machine. BENCH_FLAGS="--filter bundle/100/" selects rows, "--check" fails if a limit is
# exceeded.
bench: policy.wasm $(BASELINE)
	$(BENCH) report $(BENCH_FLAGS)

# The same, written into docs/benchmarks.md.
bench-docs: policy.wasm $(BASELINE)
	$(BENCH) report --docs docs/benchmarks.md $(BENCH_FLAGS)

# Only instructions and memory: takes seconds, and gives the same numbers on every machine.
bench-counts: policy.wasm $(BASELINE)
	$(BENCH) counts $(BENCH_FLAGS)

# Checks that the cost of an input is in proportion to its length: every list, map, text and number of every kind of
# request and of the settings grows alone, in every way, then in pairs. Takes hours. COST_EVERY=100 takes one case of a
# hundred, the same cases each time; findings are printed at once. `make test` has a part that takes a minute
# (crates/fuzz/tests/fuzz/cost). The build is that of the tests: the code under test is the module.
COST_EVERY ?= 1
cost: policy.wasm
	PILLION_COST_EVERY=$(COST_EVERY) $(CARGO) test --workspace --locked --features pillion-fuzz/cost --test fuzz cost:: -- --nocapture $(COST_FLAGS)

# A twentieth of the load of `bench-load`, with the build that the tests use.
load: policy.wasm
	$(CARGO) test --workspace --locked --test cli --test stress --no-run
	"$(abspath $(TARGET_DIR))/debug/pillion-stress" load --module policy.wasm --reviews 5000 --concurrency 32

# What a review costs the admission server, beside numbers of SidecarSets, in both forms of the settings, and beside more
# than fit into one bundle; then the load of `load`, twenty times as much. The build is optimised. LOAD_FLAGS="--reviews 5000 -o json" changes the first part.
LOAD = "$(abspath $(TARGET_DIR))/dist/pillion-stress" load --module policy.wasm
LOAD_FLAGS ?= --reviews 20000
bench-load: policy.wasm
	$(CARGO) build --quiet --profile dist --package pillion --package pillion-stress --locked
	$(LOAD) --sidecar-sets 1,10,100,1000 --settings-form manifests,bundle --check around --concurrency 8 $(LOAD_DOCS) $(LOAD_FLAGS)
	$(LOAD) --sidecar-sets 100,10000 --check around --concurrency 8 $(LOAD_FLAGS)
	$(LOAD) --reviews 100000 --concurrency 32

# The same, with the table of the first part written into docs/benchmarks.md.
bench-load-docs: LOAD_DOCS := --docs "$(CURDIR)/docs/benchmarks.md"
bench-load-docs: bench-load

# Overloads and breaks the admission server with an optimised build, and checks what other clients notice. Takes five
# minutes. FAULTS_FLAGS="--quick --only silent" makes it shorter.
bench-faults: policy.wasm
	$(CARGO) build --quiet --profile dist --package pillion --package pillion-stress --locked
	"$(abspath $(TARGET_DIR))/dist/pillion-stress" faults $(FAULTS_FLAGS)

# The controllers in a cluster of 2,000 namespaces, 200 SidecarSets and 10,000 Pods, and then rollouts in another one of
# that size. Takes half an hour; during ten minutes of it, nothing changes. The flags
# SCALE_FLAGS="--namespaces 300 --sidecar-sets 60 --pods 1500 --rest 60" and
# ROLLOUT_FLAGS="--namespaces 200 --sidecar-sets 40 --pods 2000" make it shorter. The program of the controllers is
# optimised; the programs that create the clusters are those of the tests.
SCALE := $(CARGO) bench --workspace --profile dev --locked --features pillion-testenv/cluster
MEASURED = --program "$(abspath $(TARGET_DIR))/dist/pillion" $(SCALE_DOCS)
bench-scale: policy.wasm servers
	$(CARGO) build --profile dist --package pillion --locked
	$(SCALE) --bench scale -- $(MEASURED) $(SCALE_FLAGS)
	$(SCALE) --bench rollouts -- $(MEASURED) $(ROLLOUT_FLAGS)

# The same, written into docs/benchmarks.md.
bench-scale-docs: SCALE_DOCS := --docs "$(CURDIR)/docs/benchmarks.md"
bench-scale-docs: bench-scale

# What the controllers take in simulated clusters of 1,000 to 100,000 Pods: an API server in memory stands in for a real
# one. GROWTH_FLAGS="--pods 1000,10000 --churn 20 --rest 20" makes it shorter, and
# GROWTH_FLAGS="--pods 500000 --sidecar-sets 2000" takes a larger cluster. Then one cluster of 10,000 Pods is measured
# beside a real API server and in a simulation: COMPARISON_FLAGS="--pods 1000 --churn 10 --rest 10" makes that shorter.
# Takes twenty minutes.
GROWTH_FLAGS ?=
COMPARISON_FLAGS ?=
bench-growth: policy.wasm servers
	$(CARGO) build --quiet --profile dist --package pillion --package pillion-growth --locked
	"$(abspath $(TARGET_DIR))/dist/pillion-growth" $(GROWTH_DOCS) $(GROWTH_FLAGS)
	$(SCALE) --bench growth -- --pillion "$(abspath $(TARGET_DIR))/dist/pillion" $(COMPARISON_DOCS) $(COMPARISON_FLAGS)

# The same, with the tables written into docs/benchmarks.md, and the picture beside it.
bench-growth-docs: COMPARISON_DOCS := --docs "$(CURDIR)/docs/benchmarks.md"
bench-growth-docs: GROWTH_DOCS := $(COMPARISON_DOCS) --picture "$(CURDIR)/docs/charts/growth.svg"
bench-growth-docs: bench-growth

# How long a Pod takes to start with and without an identity of its sidecar, and seconds per wave of a rollout, on real
# nodes, as Markdown tables. Takes three minutes on an idle machine, and needs what `make test-node` needs.
bench-node: policy.wasm servers
	@tools/setup node
	PILLION_JOBS=1 testenv/run-tests --nodes seconds_ -- --ignored --nocapture --test-threads=1

clean:
	$(CARGO) clean
	rm -f policy.wasm annotated-*.wasm
