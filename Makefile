# Everything that is done with this repository. "make help" lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

NODES ?= 3
PORTS ?= 174
COUNT ?= 5
# The number of seeds of the simulation, and the first one. make sim alone has a default of its own.
SEEDS ?=
FROM ?= 1
# Clients of the simulation that make soak leaves out.
WITHOUT ?=
# Flags of make test-zk: -first and -seeds of its scripts, -steps of each.
ZK ?=
# Seeds of make proof.
SOAK ?= 20000
# Power cuts of make disks; how long make fuzz is at each target, and make model at each search; states of one search at most.
CUTS ?= 40
TIME ?=
STATES ?=

# What takes longest under -race: it begins first, so that no processor is idle at the end. A bubble uses one at a time,
# and many packages wait for real clocks: more of them than there are processors run at a time.
PACKAGES := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
LONGEST := ./node ./zk ./cmd/holdfast ./transport/clientport ./fsm ./client
# Too slow under the race detector: make proof runs them with it.
PLAIN := ./test/sim/... ./test/raft ./client/herd
# So are these. Beside containers they would hold those up: nice counts for nothing between control groups.
BUBBLES := ./test/whole ./test/recipes

# Modules of their own: what they require, a program with the SDK does not fetch.
MODULES := bench fence/postgres test/deploy test/ui

# Tests of whole processes: one that times out runs once more, alone. The time of each test is kept for make slowest.
RERUN = go run ./test/rerun -timings '$(CURDIR)/bin/timings.txt' -flaky '$(CURDIR)/bin/flaky.txt'

# One race of the Raft library that changes nothing, see test/raft/README.md.
export GORACE := suppressions=$(CURDIR)/test/raft/race.supp

VERSION := $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)
COMMIT := $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null)
ABOUT := holdfast/cmd/internal/about
BUILD := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X $(ABOUT).version=$(VERSION) -X $(ABOUT).commit=$(COMMIT)'
# Wherever users have it: the plugin, or the older program of its own.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- build

.PHONY: build
build: ## Build bin/node and bin/holdfast, static
	$(BUILD) -o bin/ ./cmd/...
	@install -d -m 700 bin/data

# Docker gets what an image holds and no more of bin/, which tests change meanwhile.
.PHONY: images
images: build ## Build the container images of the node and of the tests' packet cutter
	tar -c -C bin node data -C ../deploy Dockerfile | docker build -q -t holdfast -
	if [ -f test/e2e/cut/Dockerfile ]; then \
		$(BUILD) -o bin/holdfast-cut ./test/e2e/cut; \
		tar -c -C bin holdfast-cut -C ../test/e2e/cut Dockerfile | docker build -q -t holdfast-cut -; \
	fi

.PHONY: release
release: ## Make the tarballs, bills of materials and checksums of the present commit in dist/; ARCHS='amd64 arm64'
	rm -rf dist
	deploy/release dist $(ARCHS)
	@ls -l dist

# The second build has another folder, umask, time zone and language; with COLD=1 nothing is taken from the build cache.
.PHONY: release-check
release-check: ## Make the release twice, from two folders, and compare each byte; ARCHS=amd64; COLD=1 compiles all of it twice
	@work=$$(mktemp -d) && trap 'chmod -R u+w "$$work"; rm -rf "$$work"' EXIT; \
	deploy/release "$$work/first" $(ARCHS); \
	git clone -q . "$$work/another place"; \
	git -C "$$work/another place" checkout -q --detach "$$(git rev-parse HEAD)"; \
	cp deploy/release "$$work/another place/deploy/release"; \
	(umask 077; export TZ=Pacific/Chatham LANG=tr_TR.UTF-8 $(if $(COLD),GOCACHE="$$work/cache"); \
		"$$work/another place/deploy/release" "$$work/second" $(ARCHS)); \
	if ! diff -r "$$work/first" "$$work/second"; then \
		echo 'make release-check: two builds of one commit differ' >&2; exit 1; \
	fi; \
	(cd "$$work/first" && sha256sum -c SHA256SUMS); \
	if [ -f "$$work"/first/holdfast-*-linux-amd64.tar.gz ] && [ "$$(uname -m)" = x86_64 ]; then \
		RELEASE="$$work/first" go test -count=1 -run TestTheTarballInstalls ./test/page; \
	fi; \
	for tarball in "$$work"/first/*.tar.gz; do \
		tar -xzf "$$tarball" -C "$$work"; \
		for program in "$$work/$$(basename "$$tarball" .tar.gz)"/holdfast{,-node}; do \
			if readelf -lW "$$program" | grep INTERP; then \
				echo "make release-check: $$(basename "$$program") is not static" >&2; exit 1; \
			fi; \
		done; \
	done

# ---- test

# Tests of whole processes wait for most of their time, so what only computes runs beside them at the lowest priority.

# Compilers and tests collect garbage less often, which saves a sixth of their time and takes a few gigabytes.
test soak proof: export GOGC := $(or $(GOGC),400)

.PHONY: test
test: ## Run all tests: unit tests under -race, simulation, counts, planted bugs, model, real processes; with docker and FUSE where they are
	$(MAKE) -j2 --output-sync=target units processes
	@if [ -z "$${CI:-}" ] && ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
		echo; echo '*** The tests of fences in a database did NOT run: there is no PostgreSQL here (Debian: postgresql).'; \
	fi
	@if [ -z "$${CI:-}" ] && ! command -v systemd-analyze >/dev/null; then \
		echo; echo '*** The test of the units did NOT run: there is no systemd-analyze here (Debian: systemd).'; \
	fi
	$(MAKE) -j2 --output-sync=target computed machines

.PHONY: units processes computed machines containers
units:
	all=$$(go list ./... | grep -v -e /test/model -e /test/sim -e /test/raft -e /test/whole -e /test/recipes -e /client/herd); \
		nice -n 19 $(RERUN) -- -race -p=$(PACKAGES) -timeout=30m $(LONGEST) $$all
	nice -n 19 $(RERUN) -- -timeout=30m $(BUBBLES)
	nice -n 19 $(MAKE) planted SHARE=$$(git rev-list --count HEAD 2>/dev/null || echo 0)/6
	nice -n 19 $(MAKE) model

processes:
	$(MAKE) test-zk
	$(MAKE) test-ui
	$(MAKE) test-start

computed:
	SEEDS='$(or $(SEEDS),2)' nice -n 19 $(RERUN) -- -timeout=30m $(PLAIN)
	nice -n 19 $(RERUN) -C bench -- -timeout=15m ./...
	nice -n 19 $(RERUN) -C fence/postgres -- -race ./...
	nice -n 19 $(MAKE) soak SEEDS=$(or $(SEEDS),48)
	nice -n 19 $(MAKE) deploy-check

machines:
	$(MAKE) containers
	$(MAKE) disks

containers:
	@if docker info >/dev/null 2>&1; then \
		$(MAKE) e2e; \
	elif [ -n "$${CI:-}" ]; then \
		echo 'make test: docker does not run here, and CI must run the tests with containers' >&2; exit 1; \
	else \
		echo; echo '*** The tests with containers did NOT run: there is no docker here ("docker info" says why). All others passed.'; \
	fi

.PHONY: deploy-check
deploy-check: ## Hold alert rules, dashboard, manifests and unit of deploy/ against what reads them; a module of its own
	go -C test/deploy test ./...

.PHONY: sim
sim: ## Run the simulation of whole clusters under -race; SEEDS=n runs n seeds
	SEEDS='$(SEEDS)' go test -race -count=1 -timeout 60m ./test/sim/...

.PHONY: soak
soak: ## Run SEEDS=300 seeds of the simulation, FROM=1, and sum up what they did; RACE=1: under -race; WITHOUT=authors: leave them out
	@mkdir -p bin
	go run ./test/sim/soak -seeds '$(or $(SEEDS),300)' -from '$(FROM)' -without '$(WITHOUT)' -json bin/soak.json -artifacts bin/soak $(if $(RACE),-race)

.PHONY: planted
planted: ## Plant known bugs, one at a time, and demand that a test catches each; SHARE=k/6 takes a sixth of them
	go run ./test/planted $(if $(SHARE),-share '$(SHARE)')

.PHONY: model
model: ## Search the models of the session protocol, of writes and of watches; TIME=10m for each search, STATES=n at most in one
	@TIME='$(or $(TIME),1500ms)' STATES='$(STATES)' go test -count=1 -v -timeout 0 ./test/model/... | grep -v '^=== '

.PHONY: slowest
slowest: ## Show the twenty slowest tests since bin/timings.txt was removed: seconds, package, name
	@sort -rn bin/timings.txt | sed -n 1,20p

.PHONY: fuzz
fuzz: ## Fuzz every target for TIME=30s each, until one finds something
	test/fuzz/run '$(or $(TIME),30s)'

.PHONY: disks
disks: ## Run nodes on disks that fail, hang, lie and lose power, CUTS=40 times; needs /dev/fuse and root
	@mkdir -p bin
	@if [ -w /dev/fuse ] && [ "$$(id -u)" = 0 ]; then \
		CUTS='$(CUTS)' $(RERUN) -v -- -tags=e2e -count=1 -timeout=2h -artifacts -outputdir='$(CURDIR)/bin' ./test/disk/...; \
	elif [ -n "$${CI:-}" ]; then \
		echo 'make disks: needs /dev/fuse and root, and CI must run it' >&2; exit 1; \
	else \
		echo; echo '*** The tests of failing disks did NOT run: they need /dev/fuse and root.'; \
	fi

.PHONY: test-zk
test-zk: ## Run ZooKeeper's clients, and random scripts, against nodes and a ZooKeeper; ZK='-first=61 -seeds=500': other scripts
	@$(RERUN) -v -- -tags=e2e -count=1 -timeout=30m ./test/zk $(ZK)
	@if [ -z "$${CI:-}" ]; then \
		if ! [ -f /usr/share/java/zookeeper.jar ]; then \
			echo; echo '*** The comparison with ZooKeeper did NOT run: there is none here (Debian: libzookeeper-java).'; \
		fi; \
		if ! [ -x /usr/lib/zookeeper/bin/cli_mt ]; then \
			echo; echo '*** The command-line clients of ZooKeeper did NOT run: no cli_mt here (Debian: zookeeper-bin).'; \
		fi; \
		if ! [ -f /usr/share/java/curator-recipes.jar ] || ! command -v javac >/dev/null; then \
			echo; echo '*** The tests with Curator did NOT run (Debian: libcurator-recipes-java, default-jdk-headless).'; \
		fi; \
		if ! /usr/bin/python3 -c 'import kazoo, pytest, mock, objgraph' 2>/dev/null; then \
			echo; echo '*** The tests of kazoo did NOT run (Debian: python3-kazoo, -pytest, -mock, -objgraph).'; \
		fi; \
	fi

.PHONY: test-ui
test-ui: ## Drive the console with a headless Chromium, and holdfast top in tmux, over three real nodes; a module of its own
	@mkdir -p bin
	$(RERUN) -C test/ui -- -count=1 -timeout=15m -artifacts -outputdir='$(CURDIR)/bin' .
	@if [ -z "$${CI:-}" ] && ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null; then \
		echo; echo '*** The tests of the console in a browser did NOT run: there is none here (Debian: chromium-headless-shell).'; \
	fi
	@if [ -z "$${CI:-}" ] && ! command -v tmux >/dev/null; then \
		echo; echo '*** The test of holdfast top did NOT run: there is no tmux here (Debian: tmux).'; \
	fi

.PHONY: test-start
test-start: ## Run the commands and programs of README.md and docs/start at a cluster of node dev
	@$(RERUN) -v -- -tags=e2e -count=1 -timeout=15m ./test/start

.PHONY: e2e
e2e: images ## Run the tests with containers: real processes, disks and partitions; E2E=full takes no short cuts
	@mkdir -p bin; rm -f bin/e2e-figures.*
	COMPOSE='$(COMPOSE)' E2E='$(E2E)' CGO_ENABLED=0 E2E_FIGURES="$$PWD/bin/e2e-figures.md" $(RERUN) -- -tags=e2e -count=1 -parallel=4 -timeout=2h ./test/e2e/...
	@cat bin/e2e-figures.md

.PHONY: proof
proof: ## Run everything, long: SOAK=20000 seeds, 1,000 power cuts, all planted bugs, fuzzing; about 6 hours on 2 cores
	for module in bench/etcd tools; do go -C $$module mod tidy -diff; done # fetches hundreds of modules that nothing else needs
	go test -race -count=1 -timeout 30m ./...
	for module in $(MODULES); do go -C $$module test -count=1 -timeout=30m ./...; done
	$(MAKE) test-zk ZK='-seeds=500'
	$(MAKE) test-start
	$(MAKE) sim SEEDS=100
	$(MAKE) model TIME=30s STATES=40000000
	$(MAKE) planted
	$(MAKE) e2e E2E=full
	$(MAKE) release-check COLD=1
	$(MAKE) disks CUTS=1000
	HOLDFAST_AGE_DAYS=90 go test -count=1 -timeout 4h -v -run '^TestAgeing$$' ./test/whole
	$(MAKE) fuzz TIME=1m
	$(MAKE) soak SEEDS=$(SOAK)

.PHONY: bench
bench: .bin/benchstat ## Run all benchmarks, COUNT=5 times, and summarise them
	@mkdir -p bin
	go test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 60m ./... | tee bin/bench.txt
	.bin/benchstat bin/bench.txt

.PHONY: bench-peers
bench-peers: build ## Play bench/ beside ZooKeeper and etcd, where they are, three times; WORKS=open,idle RUNS=5 SCALE=0.1
	@$(MAKE) .bin/etcd || echo 'make bench-peers: etcd does not build here and is left out' >&2
	go build -C bench -o $(CURDIR)/.bin/bench .
	.bin/bench -works '$(WORKS)' -runs '$(or $(RUNS),3)' -scale '$(or $(SCALE),1)' -json bin/bench-peers.json | tee bin/bench-peers.md

.bin/etcd: bench/etcd/go.mod $(wildcard bench/etcd/*.go)
	go build -C bench/etcd -o $(CURDIR)/$@ .

# The works of bench/ that go-zookeeper plays.
ZKWORKS := zk-requests,zk-connects,zk-idle,zk-leader-killed,zk-node-killed,zk-expiry

.PHONY: bench-zk
bench-zk: build ## Play ZooKeeper's own clients at nodes and at ZooKeeper 3.8, in turns, three times; WORKS=zk-idle RUNS=5 SCALE=0.1
	go build -C bench -o $(CURDIR)/bin/bench .
	bin/bench -works '$(or $(WORKS),$(ZKWORKS))' -peers zk:bin/node,zookeeper -runs '$(or $(RUNS),3)' -scale '$(or $(SCALE),1)' -json bin/bench-zk.json | tee bin/bench-zk.md

# ---- source

.PHONY: lint
lint: .bin/golangci-lint .bin/buf ## Lint Go and protocol buffers
	@for module in . $(MODULES); do \
		(cd $$module && $(CURDIR)/.bin/golangci-lint run --allow-parallel-runners --build-tags e2e); \
	done
	.bin/buf lint
	$(MAKE) breaking
	@if git grep -n 'synctest[.]Test(' -- '*_test.go'; then \
		echo 'make lint: use bubbles.Test of test/bubble, which says why' >&2; exit 1; \
	fi

.PHONY: breaking
breaking: .bin/buf ## Compare the protocol buffers with proto/released.binpb
	@.bin/buf breaking --against proto/released.binpb || { \
		echo 'make breaking: these forms have changed: make released renews the file until release 1 is tagged (CONTRIBUTING.md)' >&2; \
		exit 1; \
	}

.PHONY: released
released: .bin/buf ## Renew proto/released.binpb from the protocol buffers of today, until release 1 is tagged
	.bin/buf build --exclude-source-info -o proto/released.binpb

.PHONY: fmt
fmt: .bin/golangci-lint .bin/buf ## Format Go and protocol buffers
	.bin/golangci-lint fmt
	.bin/buf format -w

.PHONY: generate
generate: .bin/buf .bin/protoc-gen-go .bin/protoc-gen-go-grpc ## Generate Go from the protocol buffers
	.bin/buf generate

.PHONY: check
check: .bin/golangci-lint .bin/buf lint generate ## Check format, lint, generated code, go vet and the go.mod of all but tools
	.bin/golangci-lint fmt --diff
	.bin/buf format --diff --exit-code
	@if [ -n "$$(git status --porcelain -- proto)" ]; then \
		git --no-pager diff -- proto; git status --short -- proto; \
		echo 'make check: proto/ is not what make generate makes and git has: commit it' >&2; exit 1; \
	fi
	@for module in . $(MODULES); do go -C $$module vet -tags e2e ./...; done
	@for module in . $(MODULES); do go -C $$module mod tidy -diff; done

# ---- containers

# n1.peers is its name among the nodes, 127.0.0.1:17410 where clients on this machine reach it.
peer = $(1)=n$(1).peers@127.0.0.1:$(PORTS)$(1)0
three = $(call peer,1),$(call peer,2),$(call peer,3)
five = $(three),$(call peer,4),$(call peer,5)
# Clusters of three and of five are projects of their own: a node's data knows its peers.
project = $(if $(TLS),CERTIFICATES='$(CERTIFICATES)') $(COMPOSE) -f deploy/compose.yaml $(if $(TLS),-f deploy/tls.yaml) -p holdfast$(1) $(if $(filter 5,$(1)),--profile five)
CERTIFICATES ?= $(CURDIR)/bin/certificates

.PHONY: up
up: images ## Start a cluster in containers; NODES=3 or 5, TLS=1 with certificates and roles
	@case '$(NODES)' in 3|5) ;; *) echo 'make up: NODES must be 3 or 5' >&2; exit 2;; esac
	@case '$(TLS)' in ''|1) ;; *) echo 'make up: TLS must be 1, or left out' >&2; exit 2;; esac
	$(if $(TLS),deploy/certificates bin/holdfast '$(CERTIFICATES)' '$(NODES)' "$${CLUSTER_ID:-holdfast}")
	PORTS='$(PORTS)' HOLDFAST_PEERS='$(if $(filter 5,$(NODES)),$(five),$(three))' $(call project,$(NODES)) up -d
	@for n in $$(seq $(NODES)); do \
		for try in $$(seq 120); do \
			if bin/node health --address 127.0.0.1:$(PORTS)$${n}3 $(if $(TLS),--cacert '$(CERTIFICATES)/ca.pem') >/dev/null 2>&1; then break; fi; \
			if [ $$try = 120 ]; then echo "make up: node $$n does not serve: $(call project,$(NODES)) logs n$$n" >&2; exit 1; fi; \
			sleep 0.5; \
		done; \
	done
	@echo; echo 'The cluster serves. Next:'; echo
	@echo "  export HOLDFAST_ENDPOINTS=$$(for n in $$(seq $(NODES)); do printf '%s127.0.0.1:$(PORTS)%s0' "$${sep:-}" $$n; sep=,; done)"
	@$(if $(TLS),for v in CACERT=ca.pem CERT=admin-me.pem KEY=admin-me.key; do echo "  export HOLDFAST_$${v%=*}=$(CERTIFICATES)/$${v#*=}"; done)
	@echo '  bin/holdfast cluster status'; echo '  make down'

.PHONY: down
down: ## Stop what make up started; DATA=remove removes the nodes' data too
	@for nodes in 3 5; do \
		of="--filter label=com.docker.compose.project=holdfast$$nodes"; \
		if [ -n "$$(docker ps -aq $$of; docker network ls -q $$of)" ]; then \
			profile=; if [ $$nodes = 5 ]; then profile='--profile five'; fi; \
			$(COMPOSE) -f deploy/compose.yaml -p holdfast$$nodes $$profile down --remove-orphans; \
		fi; \
		$(if $(filter remove,$(DATA)),docker volume ls -q $$of | xargs -r docker volume rm;) \
	done

# ---- tools, built when tools/go.mod changed

pkg.buf := github.com/bufbuild/buf/cmd/buf
pkg.protoc-gen-go := google.golang.org/protobuf/cmd/protoc-gen-go
pkg.protoc-gen-go-grpc := google.golang.org/grpc/cmd/protoc-gen-go-grpc
pkg.golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
pkg.benchstat := golang.org/x/perf/cmd/benchstat

.bin/%: tools/go.mod
	go -C tools build -o ../$@ $(pkg.$*)
	@touch $@

.PHONY: tools
tools: $(patsubst pkg.%,.bin/%,$(filter pkg.%,$(.VARIABLES))) ## Build the tools into .bin/
