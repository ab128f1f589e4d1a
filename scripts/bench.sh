#!/usr/bin/env bash
# Measures the binary against other servers, with the comparison client (setup.sh and run.py) in REPLTOOL_BENCH_DIR, or in
# a folder `bench` of a neighbour of this checkout.
# Further arguments go to the client; without any it runs every target that it finds.
set -euo pipefail

binary=$(realpath "${1:-target/release/repltool}")
shift || true
bench=${REPLTOOL_BENCH_DIR:-$(find .. -maxdepth 3 -path '*/bench/run.py' -printf '%h\n' -quit 2>/dev/null)}
if [ ! -x "$bench/run.py" ] || [ ! -x "$bench/setup.sh" ]; then
    echo "missing: $bench/run.py and setup.sh, the comparison client; set REPLTOOL_BENCH_DIR to its folder" >&2
    exit 1
fi
"$bench/setup.sh"
export REPLTOOL_BIN=$binary
# Limits are for strangers; here they would be what is measured.
export REPLTOOL_ARGS=${REPLTOOL_ARGS:---rate-limits off --max-sessions-per-subject 1000}
exec "$bench/run.py" "$@"
