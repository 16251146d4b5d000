# `make verify` is what a change must pass; `make` alone lists the targets.

# Releases, the vulnerability check and fuzzing use this toolchain: Go 1.26 has reachable vulnerabilities in its standard
# library, and its fuzzer fails at random when its time is up (go.dev/issue/75804). Everything else builds with any Go from go.mod's on.
RELEASE_GO := go1.27.3
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Functions begin every 16 bytes, as compilers of C have them: at Go's 32 the binary is 1 % larger, and so is what of it is in RAM.
BUILD      := -trimpath -tags grpcnotrace -ldflags "-s -w -funcalign=16 -X main.version=$(VERSION)"
IMAGE      ?= signalbox:$(VERSION)

# Where a sidecar is: `make up` publishes it there, `make smoke` looks for it there. CONFIG is its configuration.
HOST     = 127.0.0.1
PORT     = 4141
CONFIG   = config.hcl
# How many scripted backends the end-to-end test has.
BACKENDS = 3

# How long each fuzz target runs in `make fuzz`.
FUZZTIME ?= 5s
# How often `make bench` and `make bench-growth` measure everything, for how long each time, and what: all scenarios if empty.
ROUNDS    ?= 3
DUR       ?= 4s
SCENARIOS ?=
# How many minutes `make bench-growth` watches processor time and memory.
MINUTES   ?= 10
# Where `make profile` leaves the profiles.
PROFILES  ?= bin/profiles
# The folder of the acceptance exam, a program of its own; without it `make exam` is left out.
EXAM_DIR ?=

# The seeds of the fuzz targets run with every go test, and the translators are searched for a minute; `make fuzz` searches
# everything, for as long as one likes.
CHECKS := build vet format race lint deadcode vulncheck tidy benchmarks grammar collector e2e postgres exam
tool    = go tool -modfile=deploy/tools/$(1).mod $(1)
compose = VERSION=$(VERSION) SIGNALBOX_CONFIG=$(abspath $(CONFIG)) SIGNALBOX_HOST=$(HOST) SIGNALBOX_PORT=$(PORT) docker compose

.DEFAULT_GOAL := help
.PHONY: help test verify release demo image up down smoke e2e-stack stack-test bench bench-growth profile bench-tools $(CHECKS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run the tests
	go test ./...

verify: ## run every check; all of them, even if one fails
	@passed=0; failed=; for check in $(CHECKS); do \
		echo "== $$check"; start=$$(date +%s); \
		if $(MAKE) --no-print-directory $$check; then passed=$$((passed + 1)); else failed="$$failed $$check"; fi; \
		echo "== $$check: $$(($$(date +%s) - start)) s"; \
	done; \
	for check in $$failed; do echo "FAILED: make $$check"; done; \
	set -- $$failed; echo "verify: $$passed passed, $$# failed"; test $$# -eq 0

build: ## compile everything, the binary into bin/
	go build ./...
	go build $(BUILD) -o bin/ ./cmd/...

vet: ## go vet
	go vet ./...

format: ## check the formatting (gofumpt -w . mends it)
	@out=$$($(call tool,gofumpt) -l .) && { test -z "$$out" || { echo "not gofumpt'ed:"; echo "$$out"; exit 1; }; }

race: ## run the tests with the race detector
	go test -race ./...

lint: ## golangci-lint
	$(call tool,golangci-lint) run ./...

deadcode: ## functions that nothing reaches, tests included
	@out=$$($(call tool,deadcode) -test ./...) && { test -z "$$out" || { echo "$$out"; exit 1; }; }

vulncheck: ## known vulnerabilities, with the advisories from the module proxy
	GOTOOLCHAIN=$(RELEASE_GO) deploy/tools/vulncheck

tidy: ## check that the module files are tidy
	go mod tidy -diff
	deploy/tools/tidy -diff

grammar: ## look for requests and streams that break the translators, for a minute
	GOTOOLCHAIN=$(RELEASE_GO) deploy/tools/fuzz 10s ./translate

fuzz: ## run each fuzz target for FUZZTIME
	GOTOOLCHAIN=$(RELEASE_GO) deploy/tools/fuzz $(FUZZTIME)

benchmarks: ## run each benchmark once
	go test -run '^$$' -bench . -benchtime 1x -benchmem ./...

bench-tools:
	CGO_ENABLED=0 go build $(BUILD) -o bin/ ./cmd/signalbox
	go build -o bin/ ./deploy/bench ./deploy/bench/profile

bench: bench-tools ## measure the speed beside other proxies, and what must hold under load (a quarter of an hour)
	bin/bench compare -rounds $(ROUNDS) -dur $(DUR) -scenarios "$(SCENARIOS)"

bench-growth: bench-tools ## measure what a request costs as everything grows, and over MINUTES
	bin/bench growth -rounds $(ROUNDS) -dur $(DUR) -minutes $(MINUTES)

profile: bench-tools ## profile processor, allocations and locks under load, with telemetry
	bin/bench profile -dur $(DUR) -to "$(PROFILES)"

postgres: ## run the tests of the usage store against a PostgreSQL server (Debian's package is installed if it is missing)
	deploy/tools/postgres

exam: ## run the acceptance exam in EXAM_DIR against a binary with the race detector
	deploy/tools/exam "$(EXAM_DIR)"

collector: ## have the Collector, and Grafana's and Prometheus's types, check the files of deploy (minutes to build once)
	deploy/tools/collector
	cd deploy/stack-test/check && go test -short ./...

stack-test: ## run the Collector, Jaeger, Prometheus and Alertmanager, and check what arrives (ten minutes to build once)
	deploy/stack-test/run

release: ## build the binary as it is released
	CGO_ENABLED=0 GOTOOLCHAIN=$(RELEASE_GO) go build $(BUILD) -o bin/ ./cmd/signalbox

demo: ## see a failover without an account
	go run ./cmd/signalbox demo

image: ## build the container image
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE) .

up: ## start signalbox with docker-compose.yaml, CONFIG and at HOST:PORT
	@test -e "$(CONFIG)" || { cp deploy/placeholder.hcl "$(CONFIG)" && echo "there was no $(CONFIG): a placeholder without accounts is there now"; }
	$(compose) up --build --detach

down: ## stop it
	$(compose) down

smoke: ## ask the sidecar at HOST:PORT how it is
	@go run ./deploy/smoke -url http://$(HOST):$(PORT)

e2e: ## run the built binary in front of BACKENDS scripted backends, and check it from outside
	go build $(BUILD) -o bin/ ./cmd/signalbox
	go run ./deploy/e2e -signalbox bin/signalbox -backends $(BACKENDS)

e2e-stack: ## the same with the container of docker-compose.yaml
	VERSION=$(VERSION) go run ./deploy/e2e -stack -backends $(BACKENDS)
