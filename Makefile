# What a newcomer needs: make run, make test. Go, gcc and make must be there; the
# rest is fetched.

GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)

# go-nvml declares what nvml.h calls deprecated.
export CGO_CFLAGS ?= -g -O2 -Wno-deprecated-declarations

# Flags for go test; CI adds -v so that skipped tests show.
TESTFLAGS ?=

.PHONY: build run test check-format lint unit bench fuzz e2e e2e-long e2e-shell clean

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/busbar ./cmd/busbar

# Drift is an answer, not a failure of make.
run: build
	@echo "== this machine, with the profile that fits"
	@$(BIN)/busbar plan || test $$? -lt 64
	@echo
	@echo "== the built-in recording of an HGX H100 node that has drifted"
	@$(BIN)/busbar plan --node example:hgx-h100-drifted || test $$? -lt 64

# What the linter leaves of two cores the tests have, and the other way round.
test: check-format
	@$(MAKE) --no-print-directory -j 2 lint unit

check-format:
	@echo "== gofmt"
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "gofmt would change:"; echo "$$bad"; exit 1; }
	@echo "== busbar fmt"
	@$(GO) run ./cmd/busbar fmt --check profiles/stock/*.hcl

# go vet is one of its linters.
lint: $(GOLANGCI)
	@echo "== golangci-lint"
	@$(GOLANGCI) run --allow-parallel-runners ./...

$(GOLANGCI):
	@echo "== building golangci-lint $(GOLANGCI_VERSION) (once)"
	@GOBIN=$(CURDIR)/$(BIN) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(BIN)/golangci-lint $@

# Unit tests, goldens, the import graph and the seeds of the fuzz targets.
unit:
	@echo "== go test -race"
	@$(GO) test -race -vet=off $(TESTFLAGS) ./...

bench: build
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Every fuzz target for FUZZTIME each.
FUZZTIME ?= 30s
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# The lab (docs/lab.md): scenarios on Debian in QEMU, two at a time. As root. E2E=NAME runs those
# whose names begin with NAME; e2e-long cuts the power often.
E2E ?=
e2e-long: export BUSBAR_LAB_CUTS ?= 40
e2e e2e-long:
	@$(GO) test -tags e2e -c -o $(BIN)/e2e.test ./e2e
	@cd e2e && exec ../$(BIN)/e2e.test -test.parallel 100 -test.timeout 4h -test.run '^Test$(E2E)' $(TESTFLAGS:-%=-test.%)

# A root shell in such a machine, with busbar installed. MACHINE is intel, amd or micro.
MACHINE ?= intel
e2e-shell:
	@$(GO) run -tags e2e ./e2e/shell $(MACHINE)

clean:
	rm -rf $(BIN)
