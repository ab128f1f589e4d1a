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

.PHONY: serve build test lint bench fuzz setup setup-test web

# The web page's sources, and the packages that it is built and tested with.
WEB := web-client
WEB_SOURCES := $(wildcard $(WEB)/*.json $(WEB)/*.ts $(WEB)/*.html) $(shell find $(WEB)/src $(WEB)/public $(WEB)/docs 2>/dev/null)
WEB_PACKAGES := $(WEB)/node_modules/.package-lock.json
NPM := cd $(WEB) && ../scripts/node.sh npm

# Starts a server on 127.0.0.1:8000 and prints how to reach it. ARGS are passed on: make serve ARGS="--listen 127.0.0.1:9000"
serve: build
	$(BIN) serve $(ARGS)

# Leaves target/release/repltool. A fresh `make`, so that the place of libseccomp is looked up after it was installed.
build: setup
	@$(MAKE) --no-print-directory compile

# Leaves web-client/dist, which the binary takes in.
.PHONY: web
web: $(WEB)/dist/index.html

$(WEB)/dist/index.html: $(WEB_PACKAGES) $(WEB_SOURCES)
	$(NPM) run --silent build

$(WEB_PACKAGES): $(WEB)/package-lock.json
	$(NPM) ci
	@touch $@

.PHONY: compile
compile: web
	cargo build --locked --release
ifdef CARGO_TARGET_DIR
	@mkdir -p target/release
	@[ $(BIN) -ef target/release/repltool ] || install -m 755 $(BIN) target/release/repltool
endif

test: setup-test build
	@$(MAKE) --no-print-directory check

# What tests the old cgroups against Linux fails without them: left out, and counted as skipped, where there are none.
WITHOUT := $(if $(shell grep -E ' - cgroup .*[ ,]memory' /proc/self/mountinfo),,-E 'not test(sandbox::cgroup::v1::)')

.PHONY: check
check:
	REPLTOOL_TEST_CYCLES=1000 cargo nextest run --locked --workspace $(WITHOUT)
	$(PYTHON) -B scripts/driver_tests.py tests/driver/python
	$(PYTHON) -B scripts/driver_tests.py tests/driver/javascript
	$(PYTHON) -B scripts/driver_tests.py tests/driver/bash
	$(PYTHON) -B scripts/readme.py --binary $(BIN)
	$(PYTHON) -B scripts/api_tests.py --binary $(BIN)
	$(PYTHON) -B scripts/cases.py --binary $(BIN)
	scripts/fuzz.sh
	$(NPM) run --silent test
	REPLTOOL_BIN=$(abspath $(BIN)) && export REPLTOOL_BIN && $(NPM) run --silent test:browser
	$(PYTHON) -B scripts/instructions.py

lint: web
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --features repltool/fuzzing -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(NPM) run --silent lint

bench: build
	scripts/bench_limits.py --binary $(BIN)
	cargo build --locked --release --example hello --example sandbox_cost --example screen_cost
	$(dir $(BIN))examples/sandbox_cost
	$(dir $(BIN))examples/screen_cost
	cargo bench --locked -p repltool-benches --bench micro
	scripts/bench_surface.py --binary $(BIN) --hello $(dir $(BIN))examples/hello
	scripts/bench_density.py --binary $(BIN) --seconds 60
	scripts/bench.sh $(BIN)

# Looks for inputs that break a law: make fuzz TARGET=client_frame SECONDS=600. Without TARGET, all of them in turn.
fuzz: setup-test
	SECONDS_EACH=$(or $(SECONDS),60) SEED=$$RANDOM scripts/fuzz.sh $(TARGET)

# Installs what is missing of compilers and libraries, or says what is; for the tests, of browsers and packages too.
setup:
	@scripts/setup.sh
setup-test:
	@scripts/setup.sh test
