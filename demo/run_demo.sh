#!/usr/bin/env bash
# Measures pages going through a real Mooncake Store on this machine, and what a real model gains by them, and renders the
# page with the figures.
# usage: demo/run_demo.sh [DIR]     DIR: where bench-results.json and index.html go, demo/ if not given
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
-*)
	sed -n '2,4p' "$0" >&2
	exit 2
	;;
esac
out=${1:-demo}

bash scripts/setup.sh
echo "building bin/ollamoon"
CGO_ENABLED=0 go build -o bin/ollamoon ./cmd/ollamoon
mkdir -p "$out"

# It runs in the background so that a signal to this script reaches it at once: it then stops the Mooncake and the llama-servers it started.
# Should it be killed, the kernel ends these too.
bin/ollamoon bench demo --out "$out/bench-results.json" --reproduce 'bash demo/run_demo.sh' &
bench=$!
trap 'kill -TERM $bench 2>/dev/null; wait $bench || true; exit 130' INT TERM HUP
wait $bench
trap - INT TERM HUP

bin/ollamoon report "$out/bench-results.json" --out "$out/index.html" >/dev/null
echo "the page: $(cd "$out" && pwd)/index.html"
