# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# The only entry point. Every target sets up and builds what it needs, also in a fresh clone.
#
#   TORCH=2.11.0           another torch than the default one (2.15.0), in a build folder of its own
#   SPILLWAY_PYTHON=path   a Python whose torch is to be used; no torch is downloaded then, unless TORCH=
#                          asks for another version. What the checks use (tools/requirements.txt,
#                          tools/site/requirements.txt) is downloaded into .venv all the same

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
TORCH ?=
ifdef SPILLWAY_PYTHON
export SPILLWAY_PYTHON
endif

# The default torch has no version in its folder's name.
ifeq ($(filter-out 2.15.0,$(TORCH)),)
torch_option :=
torch_folder := build/torch
else
torch_option := --torch $(TORCH)
torch_folder := build/torch-$(TORCH)
endif

# One line, before anything is done, where packages are missing and cannot be installed.
goals := $(or $(MAKECMDGOALS),help)
ifneq ($(filter-out help clean distclean docs hooks gpu-packages gpu-rehearsal gpu-bench gpu-table,$(goals)),)
groups := build check $(if $(filter bench-%,$(goals)),bench) $(if $(filter tidy,$(goals)),tidy)
cannot := $(shell tools/setup.sh preflight $(groups))
ifneq ($(cannot),)
$(error $(cannot))
endif
endif

counts := python3 tools/count_tests.py

.PHONY: help
help: ## This list
	@grep -hE '^[a-z%-]+:.*##' $(firstword $(MAKEFILE_LIST)) | \
	    awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo '  (TORCH=2.11.0 ... another torch; SPILLWAY_PYTHON=path: use the torch of that Python;'
	@echo '  MINUTES=n: what a bench may take, within ten minutes where it is not given)'

.PHONY: packages
packages:
	@tools/setup.sh packages build check

.PHONY: setup
setup: packages ## Install what is missing: Debian packages; into .venv torch and what the checks use
	@tools/setup.sh tools >/dev/null
	@tools/setup.sh docs >/dev/null
	@tools/setup.sh torch $(TORCH) >/dev/null
	@tools/setup.sh tests $(TORCH)

.PHONY: build
build: packages ## Build everything as users run it; leaves build/bin/spillway and build/lib
	@tools/build.sh torch $(torch_option)
	@ln -sfn $(notdir $(torch_folder))/bin build/bin && ln -sfn $(notdir $(torch_folder))/lib build/lib

.PHONY: wheel
wheel: build ## The wheel that a release would upload, its libraries inside, in build/wheel
	@tools/wheel.sh $(torch_folder)

.PHONY: demo
demo: build ## Train under a third of the memory that plain training takes; one table, ./demo.json
	@python3 tools/demo.py --build $(torch_folder)

.PHONY: test test-all land
test: ## Everything that CI runs; seconds by part; last line: N passed, N failed
	@python3 tools/run_parts.py $(if $(TORCH),--torch $(TORCH))
test-all: ## All there is: long tests, all under sanitizers, torch 2.11 (an hour or two)
	@python3 tools/run_parts.py --all $(if $(TORCH),--torch $(TORCH))
land: ## Move `main` to `next` if `make test` is green there, in a clone beside this tree
	@tools/land.sh

.PHONY: test-fast
test-fast: packages ## The inner loop: the core's tests, no torch
	@tools/build.sh core-debug
	@$(counts) build/core-debug

# Tests above 20 seconds have the label `long`: `make test-all` runs them, `make test` does not. Some do less where
# SPILLWAY_TESTS is not "all".
quick := $(if $(ALL),,-LE long)
tests_of := SPILLWAY_TESTS=$(if $(ALL),all,quick) $(counts)

.PHONY: test-torch
test-torch: packages ## The tests that need torch, in the build that users run (ALL=1: the long ones, too)
	@tools/build.sh torch $(torch_option)
	@tools/setup.sh tests $(TORCH)
	@$(tests_of) $(torch_folder) $(quick)

.PHONY: semantics fuzz-autograd
semantics: build ## What plain autograd does and what Spillway and its peers do: docs/semantics.md
	@tools/setup.sh tests $(TORCH)
	@tools/package.sh $(torch_folder) tests/semantics/run.py
fuzz-autograd: build ## 100,000 random autograd programs beside plain autograd (SEEDS=n)
	@tools/package.sh $(torch_folder) tests/autograd_fuzz/run.py --seeds $(or $(SEEDS),100000)

.PHONY: fuzz-policies
fuzz-policies: packages ## Every policy on 2,000 random steps (COUNT=n); of `make test-all`, while `make test` has fewer
	@tools/build.sh core-debug spillway_fuzz_test
	@build/core-debug/tests/spillway_fuzz_test --gtest_filter='PolicyFuzz.each*' --count=$(or $(COUNT),2000)

.PHONY: test-operators
test-operators: build ## All samples of PyTorch's operator and module databases beside plain autograd
	@tools/setup.sh tests $(TORCH)
	@SPILLWAY_SAMPLES=all tools/package.sh $(torch_folder) tests/python/operators_test.py
	@SPILLWAY_SAMPLES=all tools/package.sh $(torch_folder) tests/python/operators_again_test.py

.PHONY: test-seeds
test-seeds: packages ## The runtime's suite on the late accelerator under 10,000 seeds (SEEDS=n)
	@tools/build.sh torch $(torch_option) spillway_late_torch_test
	@python3 tools/seeds.py --build $(torch_folder) --seeds $(or $(SEEDS),10000)

.PHONY: mutants
mutants: packages ## Break each rule of order and of recompute: the tests notice every one; last line JSON
	@tools/build.sh mutants spillway_late_torch_test spillway_torch_driver_test
	@python3 tools/mutants.py

.PHONY: test-asan asan
test-asan: packages ## The core, torch_driver and the late accelerator's suite under AddressSanitizer and UBSan
	@tools/build.sh asan $(torch_option) spillway_sanitized_tests
	@$(tests_of) $(torch_folder:build/torch%=build/asan%) -L sanitized
asan: packages ## All tests, torch's too, under AddressSanitizer and UBSan
	@tools/build.sh asan $(torch_option)
	@SPILLWAY_TESTS=all $(counts) $(torch_folder:build/torch%=build/asan%)

.PHONY: tsan
tsan: packages ## The core's tests under ThreadSanitizer
	@tools/build.sh tsan
	@$(counts) build/tsan

.PHONY: check
check: packages ## Format, layers, sizes, lints, locks, types, the tools' own tests, each header alone
	@tools/setup.sh tools >/dev/null
	@python3 tools/check.py
.PHONY: check-fast
check-fast: ## What the git hook runs: format, layers, sizes, lints, types
	@python3 tools/check.py --fast

.PHONY: check-readme
check-readme: build ## README's commands and links
	@python3 tools/check_readme.py

.PHONY: docs
docs: ## The documentation as a site: build/site/index.html, which needs no server and no network
	@python3 tools/check_docs.py

.PHONY: fmt
fmt: packages ## Format the tree in place
	@python3 tools/check.py --fix

.PHONY: tidy
tidy: packages ## clang-tidy on the core (FILES='src/tier/.*' for some)
	@tools/setup.sh packages tidy
	@tools/build.sh core-debug
	@run-clang-tidy-14 -quiet -p build/core-debug '$(or $(FILES),/(src|cli|tests)/.*)'

benches := bench-step bench-nvme bench-codec bench-hook bench-ledger bench-leak bench-late bench-peers bench-qpo bench-lossy bench-gradients bench-recompute bench-recompute-peers bench-compare bench-compare-real bench-foretell bench-tba bench-figures bench-plan bench-record bench-states
.PHONY: $(benches)
bench-step: ## Step time under the cap against plain training (FLAGS=--models: six models in Python)
bench-nvme: ## Throughput to NVMe against fio
bench-codec: ## Encode and decode on one core against memcpy
bench-hook: ## Cost of our saved-variable hooks against Python's
bench-record: ## Cost of watching a step's operators: recorded, and where they could be run again
bench-states: ## Smallest budget where AdamW's state leaves the device, beside one where it stays; the steps there
bench-ledger: ## The ledger against the allocator and the process
bench-leak: ## Growth of memory and files over a thousand steps
bench-late: ## Cost of our waits on streams, in virtual time
bench-peers: ## Beside checkpoint, SAC and torch_remat, in Python: memory, time, exactness (MINUTES=20 to be judged)
bench-qpo: ## Uncompressed offload / QPO, with a link that is the bottleneck
bench-lossy: ## Validation loss of lossy training beside lossless, three seeds (MINUTES=35 to be judged)
bench-gradients: ## Gradient error of each class that is encoded, on GPT-2, LLaMA, ResNet-18
bench-recompute: ## Smallest peak of 14 models when tensors can only be made again, and the step there (MINUTES=20 for all 14)
bench-recompute-peers: ## Making again, moving and both, beside checkpoint, SAC and torch_remat, on 4 models (FLAGS=--half)
bench-compare: ## Every policy on 12 made steps under four budgets, by simulation (FLAGS=--table, --page)
bench-compare-real: ## Every policy on three small models under three budgets, on this machine (FLAGS=--table)
bench-foretell: ## Steps and peaks as foretold, beside real ones: five small models, two budgets, six policies (FLAGS=--table)
bench-tba: ## TBA on this drive: the peak of activations beside plain's, and the step, of GPT-2, BERT and T5
bench-figures: ## What authors report, beside ours by simulation (FLAGS=--table, --page)
bench-plan: ## Seconds of every policy's plan and of the simulator, by the number of values
with_minutes := bench-step bench-nvme bench-peers bench-qpo bench-lossy bench-recompute bench-recompute-peers bench-compare-real bench-foretell bench-tba bench-plan bench-record bench-states
$(benches): bench-%: build
	@tools/setup.sh packages bench
	@$(if $(MINUTES),$(if $(filter $@,$(with_minutes)),,echo '$@ takes what it takes: MINUTES is not used' >&2))
	@$(if $(filter bench-peers bench-lossy bench-gradients bench-recompute bench-recompute-peers bench-compare-real bench-foretell bench-tba,$@)$(filter --models,$(FLAGS)),tools/setup.sh tests $(TORCH))
	@$(if $(filter bench-lossy,$@),$$(cat $(torch_folder)/python.path),python3) bench/$(subst -,_,$*).py --build $(torch_folder) $(if $(filter $@,$(with_minutes)),$(if $(MINUTES),--minutes $(MINUTES))) $(FLAGS)

.PHONY: gpu-packages gpu-rehearsal gpu-bench gpu-table
gpu-packages: ## Libraries for gpu-bench on a machine without network, into build/gpu-packages
	@bench/gpu/packages.sh
gpu-rehearsal: ## Everything of gpu-bench but the GPU, as a bare machine sees it; needs root (STAGES='build tests')
	@bench/gpu/rehearse.sh $(STAGES)
gpu-bench: ## GPU tests and measurements by stages; exit code 77 without a GPU (STAGES='build tests', FILE=name)
	@GPU_FILE='$(FILE)' bench/gpu/run.sh $(STAGES)
gpu-table: ## Markdown of gpu-bench's JSON lines (FILE=name, or every bench/results/*.jsonl)
	@python3 bench/gpu/table.py $(FILE)

.PHONY: hooks
hooks: ## Run check-fast before each git commit
	git config core.hooksPath tools/hooks

.PHONY: clean
clean: ## Remove what was built (keeps .venv)
	rm -rf build
.PHONY: distclean
distclean: clean ## Remove what was built and set up
	rm -rf .venv
