# A thin list; the substance is in CMake and scripts/.
PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)

.PHONY: help deps build test e2e demo soak fuzz bench scale format tidy clean
help: ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install Debian packages and libtorch (idempotent)
	@scripts/deps.sh

$(BUILD)/build.ninja: deps
	@cmake --preset $(PRESET) >$(BUILD).configure.log 2>&1 || (cat $(BUILD).configure.log; exit 1)

build: ## build the programs into build/$(PRESET)/bin
	@mkdir -p build
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

test: build ## build and run all tests (PRESET=asan-ubsan|tsan for the sanitizers)
	@ctest --preset $(PRESET)

e2e: build ## play the cases of e2e/ on a real Kubernetes on this machine (TAGS=fast, CASES=name,name)
	@$${SWARM_DEPS:-.deps}/python/bin/python e2e/run.py --build $(BUILD) --tags "$(TAGS)" --cases "$(CASES)" $(ARGS)

demo: build ## train a small Llama on the King James Bible with a swarm on this machine
	@scripts/demo.sh $(BUILD)

soak: build ## train for MINUTES (10) under a fault a second; nothing may be lost, doubled or changed
	@tests/soak/soak.py $(or $(MINUTES),10) $(BUILD)

fuzz: ## fuzz everything that is parsed from outside, SECONDS (60) a target
	@SWARM_DEPS_TOOLS=1 scripts/deps.sh
	@mkdir -p build && cmake --preset fuzz >build/fuzz.configure.log 2>&1 || (cat build/fuzz.configure.log; exit 1)
	@cmake --build --preset fuzz -j $(JOBS)
	@tests/fuzz/run.sh $(or $(SECONDS),60) build/fuzz

bench: build ## build and run the benchmarks
	@cmake --build $(BUILD) -j $(JOBS) --target benchmarks
	@bench/run.sh $(BUILD)

scale: build ## measure the operator with 200 jobs of 50 pods on a control plane of its own (ARGS=--jobs=10)
	@$${SWARM_DEPS:-.deps}/python/bin/python bench/operator/scale.py --build $(BUILD) $(ARGS)

format: ## format the sources
	@git ls-files '*.h' '*.cc' '*.proto' | xargs clang-format-19 -i

tidy: build ## run clang-tidy
	@git ls-files '*.cc' | xargs -P $(JOBS) -n 4 clang-tidy-19 -p $(BUILD) --quiet

clean: ## remove what was built (not the dependencies)
	@rm -rf build
