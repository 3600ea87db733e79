# The front door. `make demo` and `make test` install what they need (Debian packages), build and run; both may be run again at any time.
JOBS ?= $(shell nproc)
PRESET ?= release

.PHONY: demo demo-s3 test build unit sweep soak mutate sanitize install-dependencies clean

install-dependencies:
	@tools/install-dependencies

build/$(PRESET)/build.ninja:
	cmake --preset $(PRESET)

build: build/$(PRESET)/build.ninja
	cmake --build --preset $(PRESET) -j $(JOBS)

demo: install-dependencies
	$(MAKE) build
	tools/demo

# The same from and into a real S3 server on this machine.
demo-s3:
	@tools/install-dependencies --s3
	$(MAKE) build
	tools/demo-s3

test: install-dependencies
	$(MAKE) build
	ctest --preset $(PRESET)

unit: build
	ctest --preset $(PRESET) -L unit

# Every fault point, action and rank, and pairs of faults; half an hour and more.
sweep: build
	CRATON_SWEEP=all CRATON_TEST_BIN=$(CURDIR)/build/$(PRESET)/bin build/$(PRESET)/bin/sweep_test

# Faults anywhere, until it is stopped: make soak SEED=7 COUNT=1000
SEED ?= $(shell date +%s)
COUNT ?= 100000
soak: build
	CRATON_SWEEP=random:$(SEED):$(COUNT) CRATON_TEST_BIN=$(CURDIR)/build/$(PRESET)/bin build/$(PRESET)/bin/sweep_test

# Takes the rules of the commit protocol out, one at a time: a test must notice each.
mutate:
	tools/mutate

sanitize:
	cmake --preset asan-ubsan
	cmake --build --preset asan-ubsan -j $(JOBS)
	ctest --preset asan-ubsan -L unit

clean:
	rm -rf build
