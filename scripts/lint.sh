#!/usr/bin/env bash
# Runs golangci-lint with .golangci.yml, after installing the pinned version into .cache/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v2.15.0
lint=.cache/bin/golangci-lint-$version
if ! [ -x "$lint" ]; then
	echo "installing golangci-lint $version"
	mkdir -p .cache/bin
	GOBIN=$PWD/.cache/bin CGO_ENABLED=0 go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
	mv .cache/bin/golangci-lint "$lint"
fi
exec "$lint" run --allow-parallel-runners ./...
