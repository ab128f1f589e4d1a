#!/usr/bin/env bash
# Installs what building and serving need and this machine lacks, and with the word `test` what testing needs besides: with
# apt where root or sudo allows, else it says exactly what is missing and fails. Quick and silent where all is there. Rust
# itself is not installed, only named.
set -euo pipefail

missing=()
need() { # need PACKAGE CHECK…: the Debian package that is missing if the check fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

static_libseccomp() {
    local folder
    folder=${LIBSECCOMP_LIB_PATH:-$(pkg-config --variable=libdir libseccomp)} && [ -e "$folder/libseccomp.a" ] &&
        pkg-config --exists libseccomp
}

need gcc command -v gcc
need libc6-dev test -e /usr/include/stdio.h
need make command -v make
need pkg-config command -v pkg-config
need libseccomp-dev static_libseccomp
need curl command -v curl
# The interpreter of sessions is the distribution's own; another python3 in PATH does not count.
need python3 test -x /usr/bin/python3
need python3-venv /usr/bin/python3 -c 'import ensurepip, venv'
# Any Node of at least 18 serves; the distribution's is taken where there is none.
need nodejs sh -c 'for node in /usr/bin/node /usr/bin/nodejs /usr/local/bin/node; do [ -x "$node" ] && exit 0; done; exit 1'
if [ "${1:-}" = test ]; then
    # libFuzzer is C++.
    need g++ command -v g++
    # The web page is tested in it.
    need chromium test -x /usr/bin/chromium
    # Rich output is tested with the packages that people use.
    need python3-numpy /usr/bin/python3 -c 'import numpy'
    need python3-pandas /usr/bin/python3 -c 'import pandas'
    need python3-matplotlib /usr/bin/python3 -c 'import matplotlib'
    # Instructions are counted under it.
    need valgrind command -v valgrind
    # Sandboxes can be containers.
    need runc test -x /usr/sbin/runc
    need crun test -x /usr/bin/crun
    # The documents use them.
    need openssl command -v openssl
    need procps command -v pkill
    # The README speaks WebSocket with it.
    need python3-websockets /usr/bin/python3 -c 'import websockets'
fi

if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        echo "missing: ${missing[*]} (names of Debian packages); install them, then run this again" >&2
        exit 1
    fi
    echo "installing: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if ! command -v cargo >/dev/null; then
    echo "missing: Rust; see https://rustup.rs, then run this again" >&2
    exit 1
fi
if [ "${1:-}" = test ] && ! cargo nextest --version >/dev/null 2>&1; then
    echo "installing: cargo-nextest"
    cargo install --locked cargo-nextest
fi
