#!/usr/bin/env bash
# Runs all checks: builds, lint, tests with the race detector, short fuzzing. Says how long each took and which failed.
# usage: scripts/test.sh [--full [ARGUMENT...]]
# --full also runs what takes longer (the demo, long tests, long fuzzing) and writes test-results/full-DATE.md. With arguments of
# go test it runs only these tests, as long as in a full run, and writes test-results/full-parts-DATE.md.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

full=
case "${1:-}" in
'') ;;
--full) full=yes ;;
*)
	sed -n '2,5p' "$0" >&2
	exit 2
	;;
esac
fuzz_count=20000x
test_timeout=25m
if [ -n "$full" ]; then
	fuzz_count=3000000x
	test_timeout=180m
	export OLLAMOON_FULL=1 # long tests look at it
	shift
fi

# What a run starts inherits this, so that what it leaves behind is found at the end.
export OLLAMOON_TEST_RUN=$$-$RANDOM

rows=()
failed=()

# step NAME COMMAND...: runs a command and notes how long it took and whether it passed.
step() {
	local name=$1 begin=$SECONDS outcome=passed
	shift
	printf '\n== %s\n' "$name"
	"$@" || {
		outcome=FAILED
		failed+=("$name")
	}
	rows+=("$(printf '%-28s %-7s %5d s' "$name" "$outcome" $((SECONDS - begin)))")
	printf -- '-- %s: %s in %d s\n' "$name" "$outcome" $((SECONDS - begin))
	[ "$outcome" = passed ]
}

build() {
	CGO_ENABLED=0 go build -o bin/ollamoon ./cmd/ollamoon || return
	local target
	for target in linux/amd64 linux/arm64 darwin/arm64; do
		echo "$target"
		CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build ./... || return
	done
	# The tests too must compile elsewhere. Linux is vetted by the linter.
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go vet ./...
}

shell_scripts() {
	local file
	for file in scripts/*.sh demo/*.sh .ci/run; do
		bash -n "$file" || return
	done
}

format() {
	local files
	files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
	[ -z "$files" ] || {
		echo "not formatted by gofmt: $files"
		return 1
	}
}

# The longest first, so that the others run beside it.
tests() { CGO_ENABLED=1 go test -race -count 1 -p 2 -timeout "$test_timeout" ./internal/worker ./...; }

# Tests in files that the race detector excludes, such as those of allocations.
tests_without_race() {
	local file names
	for file in $(grep -rl --include='*_test.go' '^//go:build.*!race' . | sort); do
		names=$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' "$file" | paste -sd '|')
		[ -z "$names" ] || go test -count 1 -timeout "$test_timeout" -run "^($names)\$" "$(dirname "$file")" || return
	done
}

fuzz() {
	local dir name
	for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do
		for name in $(go test -list '^Fuzz' "$dir" | grep '^Fuzz'); do
			echo "$dir $name"
			go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzz_count" "$dir" || return
		done
	done
}

demo() { bash demo/run_demo.sh .cache/demo; }

# left_running prints the processes that inherited this run's mark and are still there.
left_running() {
	local dir
	for dir in /proc/[0-9]*; do
		if grep -qz "^OLLAMOON_TEST_RUN=$OLLAMOON_TEST_RUN\$" "$dir/environ" 2>/dev/null; then
			echo "${dir#/proc/}: $(tr '\0' ' ' <"$dir/cmdline")"
		fi
	done 2>/dev/null
}

# What is ending gets a few seconds.
nothing_left() {
	local left try
	for try in 1 2 3 4 5 6 7 8 9 10; do
		left=$(left_running)
		[ -n "$left" ] || return 0
		sleep 1
	done
	echo "still running after $try s:"
	echo "$left"
	return 1
}

# write_results NAME TITLE: a dated file of what it reads.
write_results() {
	local file
	mkdir -p test-results
	file=test-results/$1-$(date -u +%F).md
	{
		printf '# %s, %s\n\n' "$2" "$(date -u +'%F %T UTC')"
		printf -- '- commit: %s%s\n' "$(git rev-parse HEAD)" "$(git diff --quiet HEAD || echo ', with changes')"
		printf -- '- machine: %s, %s processors, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)" "$(nproc)" \
			"$(awk '/^MemTotal:/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
		printf -- '- system: %s, Linux %s\n' "$(. /etc/os-release && echo "$PRETTY_NAME")" "$(uname -r)"
		printf -- '- versions: %s, %s, Mooncake 0.3.13.post1 and 0.3.11.post1\n' "$(go env GOVERSION)" "$(python3 -V)"
		printf '\n```\n'
		cat
		printf '```\n'
	} >"$file"
	echo "results: $file"
}

# parts ARGUMENT...: some tests only.
parts() {
	local log status=0
	log=$(mktemp)
	go test -count 1 -v -timeout "$test_timeout" "$@" | tee "$log" || status=1
	{
		printf 'go test %s\n' "$*"
		grep -E '^ *--- |^(ok|FAIL|panic)|^ +[a-z_]+_test\.go:[0-9]+: ' "$log" | cut -c 1-400
	} | write_results full-parts 'Some long tests'
	rm -f "$log"
	nothing_left && return "$status"
}

if [ $# -gt 0 ] && [ -n "$full" ]; then
	bash scripts/setup.sh --tests && parts "$@"
	exit
fi

if step 'setup' bash scripts/setup.sh --tests && step 'build' build; then
	step 'shell scripts' shell_scripts
	step 'format' format
	step 'lint' bash scripts/lint.sh
	step 'tests with -race' tests
	step 'tests without -race' tests_without_race
	step "fuzzing, $fuzz_count each" fuzz
	[ -z "$full" ] || step 'demo' demo
fi
step 'nothing left running' nothing_left

rows+=("$(printf '%-36s %5d s' total "$SECONDS")")
printf '\n'
printf '%s\n' "${rows[@]}"
[ -z "$full" ] || printf '%s\n' "${rows[@]}" | write_results full 'All checks and long tests'
if [ ${#failed[@]} -gt 0 ]; then
	printf 'FAILED: %s\n' "${failed[@]}"
	exit 1
fi
echo 'all passed'
