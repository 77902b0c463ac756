# Every target that needs something installs it first (Debian, Ubuntu; as root).
# Built programs go to bin/, the patched libcontainer to .build/, both ignored
# by git; everything else that is made goes to the user's cache folder.

SHELL   := /bin/sh
TAGS    := seccomp netgo osusergo urfave_cli_no_docs
COMMIT  := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)
VERSION := 0.1.0-dev
MODULE  := github.com/sage-sandbox/sage/internal
STRIP   := -s -w
CACHE   := $(or $(SAGE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sage)

export GOFLAGS += -trimpath
# Last: where integration/install.sh puts a Docker client if there is none.
export PATH := $(PATH):$(CACHE)/client

.DEFAULT_GOAL := help
.PHONY: help demo-servers deps patch build build-faults peers rootfs demo test test-unit test-kernel test-workload test-engines test-vm test-k8s runc-suite bench lint requirements install clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

deps:
	@sh integration/install.sh build

patch: deps
	@sh internal/runtime/patch/apply.sh

build: patch ## build sage-runtime, containerd-shim-sage-v2 and sage-egress into bin/
	CGO_ENABLED=1 go build -tags "$(TAGS)" -ldflags "$(STRIP) -X $(MODULE)/cli.version=$(VERSION) -X $(MODULE)/cli.commit=$(COMMIT) -linkmode external -extldflags -static" -o bin/ ./cmd/sage-runtime
	CGO_ENABLED=0 go build -tags "netgo osusergo no_grpc" -ldflags "$(STRIP) -X $(MODULE)/shim.version=$(VERSION)" -o bin/ ./cmd/containerd-shim-sage-v2
	CGO_ENABLED=0 GOOS=linux go build -tags "netgo osusergo" -ldflags "$(STRIP) -X main.version=$(VERSION)" -o bin/ ./cmd/sage-egress

build-faults: patch ## build sage-runtime with steps that fail on request into bin/faults/, for the tests
	CGO_ENABLED=1 go build -tags "$(TAGS) faults" -ldflags "$(STRIP) -linkmode external -extldflags -static" -o bin/faults/ ./cmd/sage-runtime
	CGO_ENABLED=0 GOOS=linux go build -tags "netgo osusergo" -ldflags "$(STRIP)" -o bin/faults/ ./cmd/sage-egress

peers: deps ## build runc, containerd, dockerd, nerdctl, crictl and CNI plugins into the cache
	@sh integration/install.sh test
	sh integration/peers/build.sh

rootfs:
	@sh integration/install.sh test
	sh integration/rootfs/build.sh

demo-servers:
	CGO_ENABLED=0 go build -o bin/ ./integration/demo

demo: build demo-servers ## run one container from create to delete, with no engine and no configuration
	@sh integration/install.sh demo
	@sh integration/demo.sh

test: build ## run every ring that this machine can run, and say which did not
	@sh integration/rings.sh

test-unit: patch ## tests that need no root: tables, golden files, transcripts
	go vet ./...
	go test -tags "$(TAGS)" ./...

test-kernel: build build-faults rootfs ## tests of the built sage-runtime on this kernel, some beside runc (root)
	sh integration/peers/build.sh runc
	go test -tags "$(TAGS) kernel" -count=1 -timeout 15m ./integration/kernel ./integration/policy ./integration/egress ./hardening/seccomp ./internal/doctor ./internal/setup ./internal/sys ./internal/sysmon ./egress/confine ./egress/bridge ./egress/guard ./egress/proxy

test-workload: build rootfs ## Debian's programs doing real work under each profile, against the list of what breaks (root)
	sh integration/rootfs/build.sh workload
	go test -tags "$(TAGS) kernel" -count=1 -timeout 15m ./integration/workload
	go test -tags "$(TAGS) kernel" -count=1 -timeout 15m ./integration/clients

test-engines: build peers rootfs ## tests under real dockerd, containerd, nerdctl, podman (root)
	go test -tags "$(TAGS) engines" -count=1 -timeout 25m ./integration/engines

test-vm: build build-faults peers rootfs demo-servers ## tests in QEMU under Debian's kernels (KERNEL=6.1|6.12|all, RUN=regexp, PKG=packages; root)
	@sh integration/install.sh vm
	go run ./integration/vm -kernel $(or $(KERNEL),6.12) $(if $(RUN),-run '$(RUN)') $(if $(PKG),-pkg '$(PKG)') $(VM)

test-k8s: build rootfs ## a node of Kubernetes in QEMU, with sage as a RuntimeClass (RUN=regexp; root)
	@sh integration/install.sh vm
	sh integration/peers/build.sh runc containerd runc-shim cni etcd kubernetes
	go run ./integration/vm -pkg ./integration/k8s -tags k8s -v $(if $(RUN),-run '$(RUN)') $(VM)

runc-suite: build peers rootfs ## runc's own test suite with runc and with sage-runtime, compared (SUITE="-subset": a part; PROFILE=sage)
	go run ./integration/runcsuite $(if $(PROFILE),-profile $(PROFILE)) $(SUITE)

bench: build peers rootfs ## measure sage-runtime against runc, in pairs; prints a table
	go run ./integration/bench $(BENCH)

lint: patch ## golangci-lint, vet for Linux and macOS
	sh integration/tools/lint.sh

requirements: patch ## list which numbered requirements a test proves
	go run ./integration/requirements

install: build ## install the programs into /usr/local/bin
	install -m 0755 bin/sage-runtime bin/containerd-shim-sage-v2 bin/sage-egress $(DESTDIR)/usr/local/bin/

clean: ## remove what was built in this checkout
	rm -rf bin .build
