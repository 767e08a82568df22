# SPDX-License-Identifier: Apache-2.0
# Front of meson and ninja. `make help` lists the targets.

BUILD := build
PREFIX ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif

.PHONY: all tool help setup setup-long demo check test bench bench-compare bench-parts check-all check-decoder \
	check-decoder-arm64 check-layers cross-arm64 test-arm64 format coverage install deb picture clean fidelity \
	torture

ifeq ($(ARCH),arm64)
all: cross-arm64 ## build everything into build/; the command line tool is build/contrail (ARCH=arm64: build-arm64/tree)
else
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)
	@ln -sfn src/cli/contrail $(BUILD)/contrail
endif

tool: $(BUILD)/build.ninja ## build the command line tool alone
	@ninja -C $(BUILD) src/cli/contrail
	@ln -sfn src/cli/contrail $(BUILD)/contrail

# A build directory names its source by its absolute path. In a copy of the tree it would build the other one.
BUILT_FROM := $(shell sed -n 's/.*"source": "\([^"]*\)".*/\1/p' $(BUILD)/meson-info/meson-info.json 2>/dev/null)
ifneq ($(filter-out $(CURDIR),$(BUILT_FROM)),)
.PHONY: $(BUILD)/build.ninja
endif

$(BUILD)/build.ninja: | setup
	@if [ -n "$(filter-out $(CURDIR),$(BUILT_FROM))" ]; then \
	    echo "$(BUILD) is of $(BUILT_FROM): it is made again for this tree"; rm -rf $(BUILD); fi
	@CC=$(CC) CXX=$(CXX) meson setup $(BUILD)

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: ## install missing Debian packages (as root or with sudo)
	@scripts/setup.sh

setup-long: ## the same for what make deb, make picture and make check-all need
	@scripts/setup.sh packages-long.txt

demo: tool ## record a small program with threads, and show its trace
	@scripts/demo.sh $(BUILD)/contrail

check: all ## what to run before each commit: the unit suite, main hazards, layers, format (under 90 seconds)
	@scripts/check.sh $(BUILD)

test: setup ## build with gcc and clang, run every suite, sanitizers, layer check (at most 15 minutes)
	@scripts/run-tests.sh

check-all: setup-long ## make test, and what takes longer
	@scripts/run-tests.sh --long

fidelity: all ## install and run some 90 programs in all modes; the table also lands in build/fidelity.json
	@scripts/setup.sh packages-fidelity.txt
	@tests/fidelity/fidelity.py --table --jobs 2 --build $(BUILD)/tests/fidelity --json $(BUILD)/fidelity.json $(FIDELITY)

torture: all ## 1,000 rounds of kills, stalls, full disks and limits
	@tests/fidelity/torture.py --build $(BUILD)/tests/fidelity --rounds 1000 $(TORTURE)

bench: all ## every figure of docs/PERFORMANCE.md: a table, JSON, plots in build/bench (BENCH=--quick: ten minutes)
	@scripts/setup.sh packages-bench.txt
	@python3 tests/bench/all/main.py $(BENCH) $(BUILD)

bench-compare: ## what a change did: make bench-compare OLD=build/bench/FILE.json
	@python3 tests/bench/all/compare.py $(OLD) $(NEW)

bench-parts: all ## run the benchmarks of single parts; they print ratios
	@for bench in $(BUILD)/tests/bench/bench_*; do \
	    if [ -f $$bench ] && [ -x $$bench ]; then echo "== $${bench##*/}"; $$bench || exit; fi; done

check-decoder: all ## compare the decoder with Zydis on every executable of this machine
	@$(BUILD)/tests/diff/decode_diff --all

check-decoder-arm64: all ## compare the arm64 decoder with objdump: swept words, every library there is for arm64
	@$(BUILD)/tests/diff/decode_a64_diff --random 5000000 --lines 800 /usr/aarch64-linux-gnu/lib build-arm64/setup/sysroot

check-layers: ## includes go downward only, and the other promises of the folders
	@scripts/check-layers.sh

cross-arm64: ## build everything for arm64 into build-arm64/tree
	@scripts/cross-arm64.sh

test-arm64: cross-arm64 ## run the arm64 tests, under qemu and in a guest (docs/ARM64.md)
	@scripts/arm64_test.py build-arm64/tree

format: ## format all C and C++ files
	@scripts/format.sh

coverage: setup ## line coverage of unit and end-to-end tests: text, and HTML in build-coverage/html
	@scripts/coverage.sh

install: all ## install below DESTDIR/PREFIX (default /usr/local)
	@meson configure $(BUILD) --prefix $(abspath $(PREFIX))
	@meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

deb: setup-long ## build Debian packages into build/deb, and have lintian look at them
	@scripts/deb.sh $(BUILD)/deb

picture: setup-long tool ## make the picture of README.md again: a trace in speedscope
	@tests/export/picture.py $(BUILD)/contrail $(BUILD)/tests/export/npm docs/images/speedscope.png

clean: ## remove everything that was built
	@rm -rf build build-clang build-asan build-tsan build-coverage build-fuzz build-arm64
