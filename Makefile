# serve and test do everything on a fresh machine that has Rust; the rest is for every day.

SHELL := /bin/bash
BIN := target/release/repltool
# Also the interpreter of sessions, so the driver is tested by the one that will run it.
PYTHON ?= /usr/bin/python3

# libseccomp is linked statically; where its archive lies depends on the distribution and the architecture.
# .cargo/config.toml has the place on Debian x86-64 for a plain `cargo build`; the environment wins over it.
LIBSECCOMP_LIB_PATH ?= $(shell pkg-config --variable=libdir libseccomp 2>/dev/null)
ifneq ($(LIBSECCOMP_LIB_PATH),)
export LIBSECCOMP_LIB_PATH
endif
export LIBSECCOMP_LINK_TYPE := static

ifdef CARGO_TARGET_DIR
BIN := $(CARGO_TARGET_DIR)/release/repltool
endif

.PHONY: serve build test lint bench setup

# Starts a server on 127.0.0.1:8000 and prints how to reach it. ARGS are passed on: make serve ARGS="--listen 127.0.0.1:9000"
serve: build
	$(BIN) serve $(ARGS)

# Leaves target/release/repltool. A fresh `make`, so that the place of libseccomp is looked up after it was installed.
build: setup
	@$(MAKE) --no-print-directory compile

.PHONY: compile
compile:
	cargo build --locked --release
ifdef CARGO_TARGET_DIR
	@mkdir -p target/release
	@[ $(BIN) -ef target/release/repltool ] || install -m 755 $(BIN) target/release/repltool
endif

test: build
	@$(MAKE) --no-print-directory check

# What tests the old cgroups against Linux fails without them: left out, and counted as skipped, where there are none.
WITHOUT := $(if $(shell grep -E ' - cgroup .*[ ,]memory' /proc/self/mountinfo),,-E 'not test(sandbox::cgroup::v1::)')

.PHONY: check
check:
	cargo nextest run --locked --workspace $(WITHOUT)
	$(PYTHON) -B scripts/driver_tests.py tests/driver/python
	$(PYTHON) -B scripts/driver_tests.py tests/driver/javascript
	$(PYTHON) -B scripts/driver_tests.py tests/driver/bash
	$(PYTHON) -B scripts/api_tests.py --binary $(BIN)
	$(PYTHON) -B scripts/cases.py --binary $(BIN)

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

bench: build
	scripts/bench_limits.py --binary $(BIN)
	scripts/bench.sh $(BIN)

# Installs what is missing of compilers and libraries, or says what is.
setup:
	@scripts/setup.sh
