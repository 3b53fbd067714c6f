# Names for the scripts; they are what the README and CI call.
.PHONY: build test full lint demo setup

build:
	CGO_ENABLED=0 go build -o bin/ollamoon ./cmd/ollamoon

setup:
	bash scripts/setup.sh

test:
	bash scripts/test.sh

full:
	bash scripts/test.sh --full

lint:
	bash scripts/lint.sh

demo:
	bash demo/run_demo.sh
