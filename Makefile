# `make` lists the targets. Everything that they need they install (Debian 12, as root) or say.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TARGET := x86_64-unknown-linux-gnu
AGENT := ullage/bin/ullage-agent
CLOCK := ullage/_clock.abi3.so
ELASTIC := ullage/_elastic.abi3.so
PROGRAMS := ullage/bin/ullage-basics ullage/bin/ullage-load ullage/bin/ullage-pipelines ullage/bin/ullage-front ullage/bin/ullage-viewers
ARM := aarch64-unknown-linux-gnu
ARM_BUILT := target/wheel/aarch64
WINDOWS := x86_64-pc-windows-gnu
WINDOWS_AGENT := ullage/bin/ullage-agent.exe
MPI_PROGRAMS := $(addprefix mpi/programs/,pingpong nqueens beffio nas ocean noise)
NEED_CARGO := command -v cargo >/dev/null || { echo 'hint: install Rust with rustup (https://rustup.rs); rust-toolchain.toml names the version' >&2; exit 1; }
# Rust's library for another system: not every Rust came by rustup, and it may be there already.
NEED_TARGET = [ -d "$$(rustc --print sysroot)/lib/rustlib/$(1)/lib" ] || rustup target add $(1)
C_SOURCES := $(shell find mpi rust tests testing benchmarks -name '*.[ch]')
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock rust-toolchain.toml

# What compiles and links Rust; `gcc` alone has no C library to link with.
BUILD_PACKAGES := gcc libc6-dev
# Those that `ullage setup` installs where there is no Makefile.
RUN_PACKAGES := $(shell awk -F, '$$4 == "yes" { print $$1 }' ullage/common/packages/packages.csv)
PROGRAM_PACKAGES := gcc libopenmpi-dev libmpich-dev
TEST_PACKAGES := sysbench iperf3 iputils-ping chromium hyperfine docker.io podman uidmap busybox-static \
  gcc g++ gfortran openmpi-bin libopenmpi-dev mpich libmpich-dev chrony fio netpipe-tcp netbase nginx-light wrk httperf nghttp2-client \
  prometheus-node-exporter nut-server ipmitool libusb-0.1-4 libwrap0 ffmpeg skopeo zstd \
  lxd lxd-client runc git xfsprogs btrfs-progs libvirt-daemon-system libvirt-clients musl-tools openssh-client openssh-server \
  ovmf mtools dosfstools fdisk syslinux syslinux-common systemd-boot-efi slurmctld slurmd slurm-client munge
# Peers that only benchmarks have.
BENCH_PACKAGES := netpipe-openmpi borgbackup restic
# Programs for Windows, and Wine, which runs them here: `wine64` is in no PATH.
WINDOWS_PACKAGES := gcc-mingw-w64-x86-64-win32 wine64
WINE := /usr/lib/wine/wine64
LINT_PACKAGES := clang-format
# libvirt-python comes as source, and is built against the libvirt that is here.
DEV_PACKAGES := gcc libc6-dev pkg-config libvirt-dev python3-dev
# A wheel for the other architecture: its C library and linker, and what runs its programs here.
ARM_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
# It and NUT exclude each other as installed packages, so it is only unpacked (and needs the two libraries above).
APCUPSD := target/apcupsd
# Installed, it would be started, and listen.
REGISTRY := target/docker-registry

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

PLAN ?= demo.yaml

.PHONY: demo
demo: setup ## Weigh containers and a VM against this machine: installs, builds, runs, writes the report
	$(BIN)/ullage run $(PLAN)

.PHONY: setup
setup: run-packages $(VENV)/.installed $(AGENT) $(CLOCK) $(ELASTIC) ## Install and build what a run needs, and the demo's image
	$(BIN)/ullage image build $(PLAN)

.PHONY: build
build: $(VENV)/.installed $(AGENT) $(CLOCK) $(ELASTIC) ## The Python environment, the agent binary and the clock's module

.PHONY: windows
windows: $(WINDOWS_AGENT) ## The agent and ullage-basics for Windows, and what they need under Wine

.PHONY: mpi
mpi: test-packages programs ## The preloaded MPI_Wtime and the MPI programs, for Open MPI and MPICH

# The agent for Windows, ullage-basics, and the clock that they read: the tests that they have on Linux.
WINE_TEST := cargo test --locked --quiet --no-fail-fast --target $(WINDOWS)
WINE_SERVED := -p ullage-agent -p ullage-basics
WINE_CLOCK := -p ullage-clock --lib --test double --test machine

# These use a CPU each and measure nothing: they take what the compiler and the others leave. The first of
# them need no program of our own, so they begin before those are built.
READERS := $(addprefix tests/,analysis report stats cli/live test_design_map.py test_direction.py test_docs_links.py test_names.py \
  test_old_folders.py) \
  $(filter-out tests/cli/test_meter% tests/cli/test_profile% tests/cli/test_try% tests/cli/test_ci_ex%,$(wildcard tests/cli/test_*.py))
CROWD := $(addprefix tests/,benchmarks experiments/studies workloads engine/test_pilot.py test_benchmarks.py \
  test_contributing.py)
# These look at clocks, fronts, viewers and energy meters, and make next to no instances: they run beside those that do.
CLOCKS := tests/experiments/clock tests/experiments/elastic tests/meters/energy $(wildcard tests/cli/test_meter*.py)
# UCX, in MPICH, takes every network device that it sees, so these have a network of their own.
MPI := tests/mpi
# Most of them wait for processes most of the time. What a file shares is made once.
ASIDE := --numprocesses 2 --dist loadfile

.PHONY: test
test: test-needs ## All tests but the lab (under 15 minutes)
	$(MAKE) --quiet -j 4 test-others test-rust test-windows

.PHONY: test-needs test-compiled test-readers test-crowd test-others test-clocks test-runs test-rust test-windows
test-needs: test-packages
	$(MAKE) --quiet -j 3 $(VENV)/.installed-dev $(AGENT) $(CLOCK) $(ELASTIC)
test-compiled: programs $(WINDOWS_AGENT)
	+cargo test --locked --quiet --workspace --no-run
	+$(WINE_TEST) --no-run $(WINE_SERVED)
	+$(WINE_TEST) --no-run $(WINE_CLOCK)
test-readers:
	nice -n 19 scripts/run-tests readers $(ASIDE) $(READERS)
test-crowd: programs
	nice -n 19 scripts/run-tests crowd $(ASIDE) $(CROWD)
test-others: test-compiled
	$(MAKE) --quiet test-clocks test-runs
test-clocks:
	scripts/run-tests clocks $(ASIDE) $(CLOCKS)
	unshare --net bash -c 'ip link set lo up && exec scripts/run-tests mpi $(MPI)'
test-runs:
	scripts/run-tests runs $(ASIDE) --numprocesses 3 $(addprefix --ignore=,$(READERS) $(CROWD) $(CLOCKS) $(MPI))
# Where the shorter ones of the others have ended, there is room beside the last.
test-rust: test-compiled test-readers
	+cargo test --locked --quiet --workspace --no-fail-fast || cargo test --locked --quiet --workspace
test-windows: test-compiled test-crowd
	$(MAKE) --quiet test-wine

.PHONY: test-wine
test-wine: export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER := $(WINE)
test-wine: export WINEPREFIX := $(abspath target/wine)
test-wine: export WINEDEBUG := -all
test-wine: export WINEPATH := Z:$(subst /,\,$(abspath ullage/bin))
test-wine: $(WINDOWS_AGENT) ## The agent's tests for Windows, under Wine
	mkdir -p $(WINEPREFIX)
	+$(WINE_TEST) $(WINE_SERVED)
	+$(WINE_TEST) $(WINE_CLOCK)

# A file or folder; everything.
LAB ?= tests

.PHONY: lab
lab: test-packages $(VENV)/.installed-dev $(AGENT) $(WINDOWS_AGENT) $(CLOCK) $(ELASTIC) programs ## The slow real things: guests, Docker, kill -9, the demo
	scripts/run-tests lab -m "lab and not long" --timeout 1200 $(LAB)

# Files of plans; what a shell inside runs.
PLANS ?=
RUN ?= ullage doctor

.PHONY: big-guest
big-guest: test-packages $(VENV)/.installed-dev $(AGENT) $(CLOCK) $(ELASTIC) programs ## An emulated Debian with KVM, bonding and netem runs RUN="ullage doctor"; PLANS="a.yaml"
	$(BIN)/python -m tests.lab.big_guest $(PLANS) --run '$(RUN)'

.PHONY: xen-guest
xen-guest: test-packages $(VENV)/.installed-dev $(AGENT) $(CLOCK) $(ELASTIC) programs ## The same of an emulated dom0 of Xen: RUN="xl info"; PLANS="a.yaml"
	$(BIN)/python -m tests.lab.xen_guest $(PLANS) --run '$(RUN)'

.PHONY: openstack
openstack: test-packages $(VENV)/.installed-dev $(AGENT) ## A shell beside a real OpenStack on this host, made from nothing
	$(BIN)/python -m tests.lab.real_openstack

# gVisor has no Debian package. Its branch `go` is what Go's own tools can build.
RUNSC := target/runsc/runsc
GVISOR := v0.0.0-20260905035102-160fafc42237

.PHONY: runsc
runsc: $(RUNSC) ## gVisor's runtime, from its Go module: for the lab
$(RUNSC): Makefile
	@command -v go >/dev/null || { echo 'hint: install Go, https://go.dev/doc/install' >&2; exit 1; }
	CGO_ENABLED=0 GOBIN=$(abspath $(@D)) go install -ldflags '-s -w' gvisor.dev/gvisor/runsc@$(GVISOR)
	touch $@

# Of `make chaos`: a seed has cases of its own, and goes on where it was stopped.
SEED ?= 1
CHAOS ?=

.PHONY: chaos
chaos: test-packages $(VENV)/.installed-dev $(AGENT) $(CLOCK) $(ELASTIC) programs ## Kills, faults, liars, fuzzing: hours; SEED=1, CHAOS="--minutes 5"
	$(BIN)/python -m tests.lab.chaos --seed $(SEED) $(CHAOS)

.PHONY: long
long: test-packages $(VENV)/.installed-dev $(AGENT) $(CLOCK) $(ELASTIC) programs ## Benchmarks to their first row, parts of the fresh root, the big guest: hours
	scripts/run-tests long -m long tests/test_benchmarks.py tests/lab/test_fresh_lab.py tests/lab/test_big_guest_lab.py tests/lab/test_xen_guest_lab.py \
	  tests/lab/real_openstack/test_openstack_faults.py tests/lab/two_nodes/test_plan_as_shipped.py

.PHONY: fresh
fresh: run-packages ## The README's two commands on a Debian that has never seen the project
	@$(NEED_CARGO)
	scripts/fresh-root make test
	scripts/fresh-root make demo PLAN=$(PLAN)

.PHONY: lint
lint: lint-packages $(VENV)/.installed-dev ## Formatting, lints, types, rooms, generated docs
	$(BIN)/ruff format --check ullage tests testing benchmarks scripts
	$(BIN)/ruff check ullage tests testing benchmarks scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m scripts.docs_reference --check
	$(BIN)/python -m scripts.docs_performance --check
	clang-format --dry-run -Werror $(C_SOURCES)
	cargo fmt --check
	+cargo clippy --locked --quiet --workspace --all-targets -- -D warnings

.PHONY: format
format: lint-packages $(VENV)/.installed-dev ## Format the code
	$(BIN)/ruff check --fix --quiet ullage tests testing benchmarks scripts
	$(BIN)/ruff format ullage tests testing benchmarks scripts
	clang-format -i $(C_SOURCES)
	cargo fmt

.PHONY: programs
programs: program-packages $(PROGRAMS) ## The programs of our own that workloads and studies run, with MPI and without
	+$(MAKE) --quiet -C mpi
	$(foreach folder,$(MPI_PROGRAMS),$(MAKE) --quiet -C $(folder) &&) true

.PHONY: wheel
wheel: build programs ## dist/ullage-*.whl: `pip install` of it needs no Rust, no make, no clone
	$(BIN)/python -m scripts.wheel ullage

.PHONY: wheel-arm
wheel-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
wheel-arm: $(VENV)/.installed arm-packages ## The same for aarch64, cross-built and tried under qemu-user; without MPI's programs
	@$(NEED_CARGO)
	@$(call NEED_TARGET,$(ARM))
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --release -p ullage-agent --target $(ARM)
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --profile program \
	  $(addprefix -p ,$(notdir $(PROGRAMS))) --target $(ARM)
	+PYO3_NO_PYTHON=1 cargo build --locked --quiet --profile extension -p ullage-python --target $(ARM)
	install -D -t $(ARM_BUILT)/bin target/$(ARM)/release/ullage-agent \
	  $(addprefix target/$(ARM)/program/,$(notdir $(PROGRAMS)))
	install -m 644 target/$(ARM)/extension/libullage_python.so $(ARM_BUILT)/$(notdir $(CLOCK))
	$(foreach program,ullage-agent $(notdir $(PROGRAMS)),qemu-aarch64-static $(ARM_BUILT)/bin/$(program) --version &&) true
	$(BIN)/python -m scripts.wheel $(ARM_BUILT)

.PHONY: docs
docs: $(VENV)/.installed-dev ## Write docs/reference from the docstrings, and performance.md from the recordings
	$(BIN)/python -m scripts.docs_reference
	$(BIN)/python -m scripts.docs_performance

.PHONY: bench
bench: build mpi bench-packages ## The benchmarks, each beside its peers
	$(BIN)/python -m benchmarks

SITE := build/site
SITE_ENV := build/site-env
OLD := tests/old_folders

.PHONY: site
site: build $(SITE_ENV)/.installed ## The docs as pages in build/site, with search; a broken link or anchor fails
	rm -rf $(SITE) $(SITE)-extra
	mkdir -p $(SITE)-extra/gallery
	cp docs/site/start.html $(SITE)-extra/index.html
	for kind in run duet curve profile cloud allocation; do \
	  $(BIN)/ullage report --read-only --out $(SITE)-extra/gallery/$$kind.html $(OLD)/$$kind/* || exit 1; done
	$(BIN)/ullage elastic report --out $(SITE)-extra/gallery/elastic.html $(OLD)/elastic/*
	$(SITE_ENV)/bin/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going -c docs/site . $(SITE)
	@echo "open $(SITE)/index.html"

$(SITE_ENV)/.installed: requirements-site.lock
	$(PYTHON) -m venv $(SITE_ENV)
	$(SITE_ENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock
	touch $@

.PHONY: lock
lock: $(VENV)/.installed-dev ## Lock the Python dependencies anew, with hashes
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header requirements-dev.in -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header -c requirements-dev.lock \
	  requirements.in -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header -c requirements-dev.lock \
	  requirements-site.in -o requirements-site.lock

.PHONY: clean
clean: ## Remove what was built here, and what killed runs left on this host
	-test ! -x $(BIN)/ullage || $(BIN)/ullage clean --yes
	rm -rf $(VENV) target ullage/bin $(CLOCK) $(ELASTIC) build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || scripts/need-packages python3-venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed | dev-packages
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

# `+` lets cargo take its jobs from make's.
$(AGENT): $(RUST_SOURCES) | build-packages
	@$(NEED_CARGO)
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --release -p ullage-agent --target $(TARGET)
	install -D target/$(TARGET)/release/ullage-agent $@

# Windows 10 and later. Wine 8 lacks a library that Rust's own asks for: ours stands beside them.
$(WINDOWS_AGENT): $(RUST_SOURCES) rust/agent/wine/bcryptprimitives.c | build-packages windows-packages
	@$(NEED_CARGO)
	@$(call NEED_TARGET,$(WINDOWS))
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --release -p ullage-agent --target $(WINDOWS)
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --profile program -p ullage-basics --target $(WINDOWS)
	x86_64-w64-mingw32-gcc -O2 -s -shared -o target/bcryptprimitives.dll rust/agent/wine/bcryptprimitives.c -ladvapi32
	install -D -t ullage/bin target/bcryptprimitives.dll target/$(WINDOWS)/program/ullage-basics.exe \
	  target/$(WINDOWS)/release/ullage-agent.exe

# Static, like the agent: the same bytes run in every environment.
$(PROGRAMS): $(RUST_SOURCES) | build-packages
	@$(NEED_CARGO)
	+RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --quiet --profile program \
	  $(addprefix -p ,$(notdir $(PROGRAMS))) --target $(TARGET)
	install -D -t ullage/bin $(addprefix target/$(TARGET)/program/,$(notdir $(PROGRAMS)))

$(CLOCK): $(RUST_SOURCES) | build-packages
	@$(NEED_CARGO)
	+PYO3_NO_PYTHON=1 cargo build --locked --quiet --profile extension -p ullage-python
	install -m 644 target/extension/libullage_python.so $@

# One shared object holds both modules.
$(ELASTIC): $(CLOCK)
	ln -sf $(notdir $<) $@

.PHONY: build-packages
build-packages:
	@scripts/need-packages $(BUILD_PACKAGES)

.PHONY: dev-packages
dev-packages:
	@scripts/need-packages $(DEV_PACKAGES)

.PHONY: program-packages
program-packages:
	@scripts/need-packages $(PROGRAM_PACKAGES)

.PHONY: arm-packages
arm-packages:
	@scripts/need-packages $(ARM_PACKAGES)

.PHONY: bench-packages
bench-packages:
	@scripts/need-packages $(BENCH_PACKAGES)

.PHONY: windows-packages
windows-packages:
	@scripts/need-packages $(WINDOWS_PACKAGES)

.PHONY: lint-packages
lint-packages:
	@scripts/need-packages $(LINT_PACKAGES)

.PHONY: run-packages
run-packages:
	@scripts/need-packages $(RUN_PACKAGES)

.PHONY: test-packages
test-packages: run-packages windows-packages
	@scripts/need-packages $(TEST_PACKAGES)
	@scripts/unpack-package apcupsd $(APCUPSD)
	@scripts/unpack-package docker-registry $(REGISTRY)
