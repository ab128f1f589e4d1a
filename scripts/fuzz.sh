#!/usr/bin/env bash
# Looks for inputs that break a law of what reads bytes from outside; the programs are in fuzz/fuzz_targets.
#
#   scripts/fuzz.sh [TARGET…]   all of them without a name; SECONDS_EACH (3) says for how long, SEED (1) where it begins
#
# A finding is kept in fuzz/artifacts/TARGET, and what it began with and learned in fuzz/corpus/TARGET, both outside of git.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-target}
# What cargo-fuzz passes, but for the sanitizer: it needs an unstable compiler, and all code that is fuzzed is safe Rust.
# --target keeps build scripts and macros free of it.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="${RUSTFLAGS:-} ${flags//$'\n'/ }" cargo build --locked --manifest-path fuzz/Cargo.toml \
    --target "$host" --target-dir "$target_dir"

scripts/fuzz_corpus.py fuzz/corpus
[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml)
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
failed=()
for target in "$@"; do
    mkdir -p "fuzz/artifacts/$target"
    log=$TMPDIR/$target.log
    if "$target_dir/$host/debug/$target" "fuzz/corpus/$target" -artifact_prefix="fuzz/artifacts/$target/" \
        -dict=fuzz/corpus/dictionary -max_len=4096 -timeout=10 -rss_limit_mb=2048 -seed="${SEED:-1}" \
        -max_total_time="${SECONDS_EACH:-3}" -print_final_stats=1 >"$log" 2>&1; then
        printf '%-16s %s inputs, %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
            "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
    else
        grep -v '^#' "$log" | tail -n 40
        failed+=("$target")
    fi
done
[ ${#failed[@]} = 0 ] || { echo "broken laws: ${failed[*]}" >&2; exit 1; }
