# The front door. `make demo` and `make test` install what they need (Debian packages), build and run; both may be run again at any time.
JOBS ?= $(shell nproc)
PRESET ?= release

.PHONY: demo test build unit sanitize install-dependencies clean

install-dependencies:
	@tools/install-dependencies

build/$(PRESET)/build.ninja:
	cmake --preset $(PRESET)

build: build/$(PRESET)/build.ninja
	cmake --build --preset $(PRESET) -j $(JOBS)

demo: install-dependencies
	$(MAKE) build
	tools/demo

test: install-dependencies
	$(MAKE) build
	ctest --preset $(PRESET)

unit: build
	ctest --preset $(PRESET) -L unit

sanitize:
	cmake --preset asan-ubsan
	cmake --build --preset asan-ubsan -j $(JOBS)
	ctest --preset asan-ubsan -L unit

clean:
	rm -rf build
