# `make help` lists the targets. Tools are pinned in tools/go.mod; packages and
# fuzz targets are discovered, not listed here, but for FLEETS and ALONE.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# Static binaries, and one set of compiled packages for vet, staticcheck, build
# and generate. The race detector needs cgo, and so a set of its own.
export CGO_ENABLED := 0
RACE := CGO_ENABLED=1 go test -race

# Their tests run fleets of processes against the clock, and need the machine for
# themselves: beside others on two cores they waited for it, not for the fleet.
FLEETS := nightshift/tasks nightshift/internal/app

# Tests that drive one goroutine through a great many steps, and their packages: the
# race detector, which finds nothing there, would take minutes (make race does).
ALONE := ^(TestCase30_AMillionLinesInterruptedAtHalf|TestLinesFollowTheModel|TestScriptsAgreeWithStepOnMiniredis|TestEveryMutationOfTheScriptsIsNoticed|TestEveryMutationOfTheGuardsScriptsIsNoticed|TestOtherProviders|TestGuardKeepsNothingForEver)$$
ALONE_IN := nightshift/batch nightshift/breaker nightshift/limit

TOOL := go tool -modfile=tools/go.mod

# How long each fuzz target runs, which benchmarks run, and what the whole test
# run may take on a small machine.
FUZZTIME ?= 10s
BENCH ?= .
TEST_TIMEOUT ?= 15m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-9s %s\n", $$1, $$2}' Makefile

.PHONY: deps
deps: ## install what the tests need (redis-server, chromium, promtool, gcc) where it is missing
	@.ci/deps

.PHONY: run
run: ## rehearse a night: embedded Redis, simulated providers, no key
	go run ./cmd/enqueue run --rehearse examples/overnight.jsonl -o results.jsonl

.PHONY: build
build: ## build static binaries into bin/
	@mkdir -p bin
	go build -o bin/ ./cmd/...

.PHONY: test
test: deps ## install what is missing, then run every test, under the race detector where it counts
	go test -timeout $(TEST_TIMEOUT) -run '$(ALONE)' $(ALONE_IN)
	$(RACE) -timeout $(TEST_TIMEOUT) -skip '$(ALONE)' $$(go list ./... | grep -vx $(FLEETS:%=-e %))
	$(RACE) -timeout $(TEST_TIMEOUT) -p 1 -parallel 4 $(FLEETS)

.PHONY: race
race: deps ## run every test anew, twice, under the race detector
	$(RACE) -count=2 -timeout 2h ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@go test -list '^Fuzz' ./... \
	  | awk '/^Fuzz/ {names[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, names[i]; n = 0}' \
	  | while read -r package name; do \
	      echo "fuzz $$package $$name"; \
	      go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" < /dev/null; \
	    done

.PHONY: bench
bench: deps ## run the benchmarks (BENCH=regexp picks some)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 1h ./...

.PHONY: fmt
fmt: ## format the Go code
	$(TOOL) gofumpt -w .

.PHONY: lint
lint: ## vet, staticcheck, gofumpt
	go vet ./...
	$(TOOL) staticcheck ./...
	@unformatted=$$($(TOOL) gofumpt -l .); \
	  if [ -n "$$unformatted" ]; then echo "not formatted, run: make fmt"; echo "$$unformatted"; exit 1; fi

.PHONY: generate
generate: ## write the files that come from the code
	go generate ./...

.PHONY: verify
verify: ## fail where generated files or go.mod are not what the code makes of them
	go mod tidy -diff
	go -C internal/deploytest/testdata/manifests mod tidy -diff
	@.ci/unchanged $(MAKE) --no-print-directory generate

.PHONY: ci
ci: verify lint build test ## everything that must hold: verify, lint, build, test
