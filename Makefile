# `make run` and `make test` are all that a newcomer needs; both need only git and make.
# Everything is built under build/.

JOBS ?= $(shell nproc)
CHECKPOINT ?= tests/data/checkpoints/qwen3_moe
CMAKE_ARGS ?=

.DEFAULT_GOAL := help

help:
	@echo "make run         build, then run the MoE layers of a shipped checkpoint over 4 ranks"
	@echo "make test        build everything, then run the tests"
	@echo "make build       build the command, build/waybill"
	@echo "make lint        formatting, static analysis, shell syntax"
	@echo "make test-extra  property tests with 50 times as many cases, fuzz targets 10 million times (hours)"
	@echo "make clean       remove build/"

# Quoted by the shell, so that a name may hold anything; not every checkpoint comes with a recording.
export CHECKPOINT
run: build
	@set -- run "$$CHECKPOINT" --ranks 4 --check; \
	if [ -f "$$CHECKPOINT/golden.safetensors" ]; then \
	  set -- "$$@" --golden "$$CHECKPOINT/golden.safetensors"; \
	fi; \
	echo "build/waybill $$*"; \
	build/waybill "$$@"

test: configure
	cmake --build build --parallel $(JOBS)
	ctest --preset release --parallel $(JOBS)
	@grep -hs 'skipped (no GPU)' build/Testing/Temporary/LastTest.log || true

build: configure
	cmake --build build --parallel $(JOBS) --target waybill-cli

lint: setup
	scripts/setup lint
	CUDACXX="$$(scripts/nvcc)" cmake --preset tidy
	scripts/lint build/tidy

test-extra: configure
	cmake --build build --parallel $(JOBS)
	RC_PARAMS="max_success=5000" ctest --preset release --parallel $(JOBS) --timeout 3600
	scripts/fuzz --runs 10000000

configure: setup
	CUDACXX="$$(scripts/nvcc)" cmake --preset release $(CMAKE_ARGS)

setup:
	scripts/setup build

clean:
	rm -rf build

.PHONY: help run test build lint test-extra configure setup clean
