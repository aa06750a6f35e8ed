# A thin list; the substance is in CMake and scripts/.
PRESET ?= release
BUILD := build/$(PRESET)
export JOBS ?= $(shell nproc)
export SWARM_DEPS_CUDA ?= $(or $(CUDA),$(if $(filter cuda,$(PRESET)),1))
PYTHON = $${SWARM_DEPS:-.deps}/python/bin/python

.PHONY: help deps test-deps build test test-heavy e2e demo soak mutate fuzz bench site dashboards gpu-bundle scale dist dist-test tutorial-test format tidy clean
help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what the programs are built from: Debian packages and libtorch (idempotent; CUDA=1: the preset cuda too)
	@scripts/deps.sh

test-deps: ## the same, and what only the tests and benchmarks need
	@SWARM_DEPS_TESTS=1 scripts/deps.sh

demo: deps ## train a small Llama on the King James Bible with a swarm on this machine
	@scripts/build.sh $(PRESET) swarmctl swarm-worker
	@scripts/demo.sh $(BUILD)

build: deps ## build the programs into build/release/bin (PRESET=debug and others: CMakePresets.json; JOBS=N compilers)
	@scripts/build.sh $(PRESET) programs

test: test-deps ## build everything, run all tests, name those left out (PRESET=asan-ubsan|tsan for the sanitizers)
	@scripts/build.sh $(PRESET) all
	@scripts/test.sh $(PRESET)

test-heavy: test-deps ## run what `make test` leaves out: more seeds of the simulation, more jobs, the searches of spin (an hour)
	@scripts/build.sh release simulation_test
	@ctest --preset heavy --no-tests=error

e2e: test-deps build ## play the cases of e2e/ on a real Kubernetes on this machine (TAGS=fast, CASES=name,name)
	@$(PYTHON) e2e/run.py --build $(BUILD) --tags "$(TAGS)" --cases "$(CASES)" $(ARGS)

soak: test-deps build ## train for MINUTES (10) under a fault a second; nothing may be lost, doubled or changed
	@tests/soak/soak.py $(or $(MINUTES),10) $(BUILD)

mutate: test-deps ## break each rule of the protocol, and name what notices (ARGS="--seeds=5000", ARGS=NAME; about an hour)
	@tests/simulation/mutate/mutate.py $(ARGS)

fuzz: ## fuzz everything that is parsed from outside, SECONDS (60) a target
	@SWARM_DEPS_TOOLS=1 scripts/deps.sh
	@scripts/build.sh fuzz fuzzers
	@tests/fuzz/run.sh $(or $(SECONDS),60) build/fuzz

bench: test-deps ## build and run the benchmarks
	@scripts/build.sh $(PRESET) programs benchmarks
	@bench/run.sh $(BUILD)

site: test-deps build ## build the documentation as a site in build/site
	@$${SWARM_DEPS:-.deps}/site/bin/python -B scripts/site/build.py build/site $(BUILD)/bin

gpu-bundle: ## collect what a machine with a GPU and PyTorch runs, in build/gpu (docs/gpu.md)
	@SWARM_DEPS_CUDA=1 scripts/deps.sh
	@cmake --preset cuda -DSWARM_UNITY=ON -DSWARM_CUDA_ARCHITECTURES= >/dev/null
	@scripts/build.sh cuda cuda_tests swarm-worker swarmctl
	@bench/gpu/collect.sh build/cuda build/gpu

dist: ## make the tarball of a release, with all that its programs need, and the chart's package in build/dist
	@SWARM_DEPS_DIST=1 scripts/deps.sh
	@scripts/build.sh $(PRESET) programs
	@scripts/dist/make.py $(BUILD) build/dist

dist-test: dist ## try the tarball in clean roots of Debian 12 and 13, without network (needs root)
	@tests/dist/tarball_test.py $(BUILD) build/dist

tutorial-test: dist ## play docs/tutorial.md alone in a clean root of Debian (needs root; ARGS="--way source": from source)
	@tests/dist/tutorial.py $(ARGS)

dashboards: test-deps build ## draw each dashboard over a run with faults, in out/dashboards, and let alerts fire on another one
	@SWARM_DEPS=$(or $(SWARM_DEPS),$(CURDIR)/.deps) $(PYTHON) tests/dashboards/render.py $(BUILD) out/dashboards
	@SWARM_DEPS=$(or $(SWARM_DEPS),$(CURDIR)/.deps) $(PYTHON) tests/dashboards/firing_test.py $(BUILD)

scale: test-deps build ## measure the operator with 200 jobs of 50 pods on a control plane of its own (ARGS=--jobs=10)
	@$(PYTHON) bench/operator/scale.py --build $(BUILD) $(ARGS)

format: ## format the sources (needs SWARM_DEPS_TOOLS=1 make deps, as tidy)
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' '*.proto' | xargs clang-format-19 -i

tidy: build ## run clang-tidy
	@git ls-files '*.cc' | xargs -P $(JOBS) -n 4 clang-tidy-19 -p $(BUILD) --quiet

clean: ## remove what was built (not the dependencies)
	@rm -rf build
