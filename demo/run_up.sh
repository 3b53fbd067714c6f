#!/usr/bin/env bash
# Runs a cluster on this machine until Ctrl-C: a Mooncake Store, a prefill worker, decode workers and a router.
# usage: demo/run_up.sh [--try] [flags of `ollamoon up`]
# --try: sends two requests that begin alike, tells what came of them, and ends
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh
echo "building bin/ollamoon"
CGO_ENABLED=0 go build -o bin/ollamoon ./cmd/ollamoon
exec bin/ollamoon up "$@"
