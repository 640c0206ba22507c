"""The closed catalogue of what can go wrong.

Every error that a user can meet is an entry here: a stable code, what was found, and what to do.
Add an entry with its test; `tests/test_errors.py` refuses an entry that no test raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    GATE_FAILED = 1
    BAD_INPUT = 2
    SOME_CELLS_FAILED = 3
    INTERRUPTED = 130


@dataclass(frozen=True)
class ErrorKind:
    """One entry of the catalogue.

    `message` and `hint` are `str.format` templates over the facts given when it is raised.
    """

    code: str
    message: str
    hint: str
    exit_code: ExitCode = ExitCode.BAD_INPUT


class UllageError(Exception):
    """An error from the catalogue, with the facts of this case."""

    def __init__(self, kind: ErrorKind, **facts: object) -> None:
        self.kind = kind
        self.facts = facts
        super().__init__(f"{self.message} [{kind.code}]")

    @property
    def message(self) -> str:
        """What was found, in one sentence."""
        return self.kind.message.format(**self.facts)

    @property
    def hint(self) -> str:
        """What to do about it."""
        return self.kind.hint.format(**self.facts)

    @property
    def code(self) -> str:
        """The stable code, such as `plan-unknown-field`."""
        return self.kind.code


# --- plan -----------------------------------------------------------------------------------------
PLAN_NOT_READABLE: Final = ErrorKind(
    "plan-not-readable",
    "cannot read the plan {file}: {reason}",
    "check the path, or write one with `ullage init`",
)
PLAN_BAD_YAML: Final = ErrorKind(
    "plan-bad-yaml",
    "{file}:{line}: not valid YAML: {reason}",
    "mend the line; `ullage init` writes a commented example",
)
PLAN_BAD_FIELD: Final = ErrorKind(
    "plan-bad-field", "{file}:{line}: {field}: found {found}; {allowed}", "{suggestion}"
)
PLAN_UNKNOWN_FIELD: Final = ErrorKind(
    "plan-unknown-field",
    "{file}:{line}: unknown field {field}; allowed are {allowed}",
    "{suggestion}",
)
PLAN_UNKNOWN_WORKLOAD: Final = ErrorKind(
    "plan-unknown-workload",
    "{file}:{line}: unknown workload {found}; known are {allowed}",
    "{suggestion}",
)
PLAN_UNKNOWN_PROVIDER: Final = ErrorKind(
    "plan-unknown-provider",
    "{file}:{line}: unknown provider {found}; known are {allowed}",
    "{suggestion}",
)
PLAN_NO_BASELINE: Final = ErrorKind(
    "plan-no-baseline",
    "{file}:{line}: baseline {found} is not one of the environments: {allowed}",
    "name the environment to compare with in `baseline:`",
)
PLAN_BAD_NAME: Final = ErrorKind(
    "plan-bad-name",
    "{file}:{line}: {found} cannot be a name: 1 to 40 letters, digits, dots, dashes, underscores,"
    " a letter or digit first, no two dots together",
    "names become folders and devices; choose a plain one",
)
PLAN_IMPOSSIBLE_MATRIX: Final = ErrorKind(
    "plan-impossible-matrix", "{file}:{line}: {reason}", "{suggestion}"
)
PLAN_EXISTS: Final = ErrorKind(
    "plan-exists", "{file} is already there", "choose another name, or overwrite it with --force"
)

# --- host and parity ------------------------------------------------------------------------------
HOST_MISSING: Final = ErrorKind(
    "host-missing", "{what} is missing on this host", "install it: {command}"
)
HOST_NEEDS_ROOT: Final = ErrorKind(
    "host-needs-root", "{what} needs root", "run as root, or {otherwise}"
)
HOST_TOO_SMALL: Final = ErrorKind(
    "host-too-small",
    "the plan asks for {asked}, this host has {has}",
    "lower `resources:`, use a larger host, or leave `design: duet` out",
)
PARITY_UNEQUAL: Final = ErrorKind(
    "parity-unequal",
    "the environments are not equal in {nuisance}: {values}",
    "make them equal, or write `allow: [{nuisance}]` in the plan; the report will then say so",
)

# --- run ------------------------------------------------------------------------------------------
RUN_NOT_FOUND: Final = ErrorKind(
    "run-not-found", "no run at {path}", "`ullage list` shows the runs here"
)
FILE_FAILED: Final = ErrorKind(
    "file-failed",
    "{file}: {reason}",
    "name a place that exists, may be written and has room",
)
RUN_BAD_FORMAT: Final = ErrorKind(
    "run-bad-format",
    "{path} is not a run folder of format {format}: {reason}",
    "use the version of ullage that wrote it, or a copy of the folder that is whole",
)
RUN_OF_ANOTHER_KIND: Final = ErrorKind(
    "run-of-another-kind",
    "{path} is the run of {what} plan",
    "`{command} {path}` shows it",
)
RUN_DISK_FULL: Final = ErrorKind(
    "run-disk-full",
    "the disk of {path} is full; what was journaled before is safe",
    "free some space, then `ullage run --resume {path}`",
)
RUN_CHANGED: Final = ErrorKind(
    "run-changed",
    "{path} cannot go on: {what} changed since it began",
    "put it back as it was, or start a new run; only `max` and `budget` of `blocks:` may change, "
    "of an elastic plan `repetitions` and `budgets:`",
)
RUN_IN_USE: Final = ErrorKind(
    "run-in-use", "another process is working on {path}", "wait for it, or stop it with Ctrl-C"
)

# --- image, guest kernel and QEMU -----------------------------------------------------------------
IMAGE_BUILD_FAILED: Final = ErrorKind(
    "image-build-failed", "the image could not be built: {reason}", "{suggestion}"
)
ARTIFACT_UNREACHABLE: Final = ErrorKind(
    "artifact-unreachable",
    "cannot fetch {url}: {reason}",
    "can this host reach the Internet, or a proxy ($https_proxy)? leave the workload out if not",
)
ARTIFACT_CHANGED: Final = ErrorKind(
    "artifact-changed",
    "{url} is not what it was: its SHA-256 is {found}",
    "nothing was kept; try again, and tell the maintainers of ullage if it stays so",
)
IMAGE_CHANGED: Final = ErrorKind(
    "image-changed",
    "image {digest} was changed since it was built: {what}",
    "nothing may write to an image; remove {dir} and build it again",
)
IMAGE_LACKS_PACKAGE: Final = ErrorKind(
    "image-lacks-package",
    "the image has no program {programs}",
    "a plan cannot add packages: name the Debian package in `packages` of the workload's class"
    " (see CONTRIBUTING.md), or use the host's own programs with `image: host`",
)
DISK_NOT_MADE: Final = ErrorKind(
    "disk-not-made", "cannot make the disk {path}: {reason}", "is there space left on that disk?"
)
GUEST_KERNEL_UNUSABLE: Final = ErrorKind(
    "guest-kernel-unusable",
    "no guest kernel from {package}: {reason}",
    "run `apt-get update`, then try again",
)
VM_NEVER_BOOTED: Final = ErrorKind(
    "vm-never-booted",
    "{instance} said nothing within {deadline_s:g} s ({accelerator}): {tail}",
    "a slow host needs a longer `boot_deadline_s`",
)
VM_FAILED: Final = ErrorKind(
    "vm-failed",
    "{instance}: {what}: {reason}",
    "the end of its console may tell why: {console}",
)
VM_NEEDS_IMAGE: Final = ErrorKind(
    "vm-needs-image",
    "{instance} is a VM and cannot run from the host's own userland",
    "leave `image: host` out of the plan, or the VM",
)
VM_NO_KVM: Final = ErrorKind(
    "vm-no-kvm",
    "the plan asks for `accel: kvm`, but no guest boots with KVM here: {reason}",
    "write `accel: auto`; the VM is then emulated, and every table says so",
)

# --- agent ----------------------------------------------------------------------------------------
AGENT_BINARY_MISSING: Final = ErrorKind(
    "agent-binary-missing",
    "the agent's binary is not there; looked at {places}",
    "`make build` builds it; or name it in $ULLAGE_AGENT",
)
PROGRAM_MISSING: Final = ErrorKind(
    "program-missing",
    "a program of ullage's own is not there: {program}",
    "`make programs` builds those that workloads run",
)
AGENT_NOT_STARTED: Final = ErrorKind(
    "agent-not-started",
    "the agent of {agent} did not start: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_LOST: Final = ErrorKind(
    "agent-lost",
    "the agent of {agent} is gone: {reason}",
    "look at the instance's console log; its memory limit may be too low",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_SILENT: Final = ErrorKind(
    "agent-silent",
    "the agent of {agent} has not answered {op} for {seconds:.0f} s",
    "the instance may be hung or starved; look at its console log",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_REFUSED: Final = ErrorKind(
    "agent-refused",
    "the agent of {agent} could not {op}: {reason} ({error})",
    "check that the program or file exists in the image",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CORRUPT: Final = ErrorKind(
    "agent-corrupt",
    "{path} did not arrive whole at or from {agent}: {reason}",
    "the channel to the instance damages data; try another transport",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CLOCK: Final = ErrorKind(
    "agent-clock",
    "the clock of {agent} cannot be known: {reason}",
    "nothing that it says of time can be used; make the instance anew, or mend the host's clock",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_NOT_READY: Final = ErrorKind(
    "agent-not-ready",
    "{program} in {agent} did not print {text}: {reason}",
    "its output is kept in the run folder",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_FLOOD: Final = ErrorKind(
    "agent-flood",
    "{program} in {agent} printed more than {limit} bytes and was killed",
    "make the program less talkative",
    ExitCode.SOME_CELLS_FAILED,
)

# --- cgroups and limits ---------------------------------------------------------------------------
CGROUP_MISSING: Final = ErrorKind(
    "cgroup-missing",
    "this host has no cgroup controller {controller}",
    "boot with that controller enabled, or leave the limit out of the plan",
)
CGROUP_DENIED: Final = ErrorKind(
    "cgroup-denied",
    "cannot set {what} in {path}: {reason}",
    "run as root (inside a container with a writable cgroup file system), or write"
    " `memory: host` and whole CPUs under `resources:`",
)
CGROUP_STUCK: Final = ErrorKind(
    "cgroup-stuck",
    "the cgroup {path} did not become {state} within {seconds:.0f} s",
    "a process in it may hang in the kernel (state D); see `ps -eo pid,stat,wchan,args`",
    ExitCode.SOME_CELLS_FAILED,
)
LIMIT_NOT_APPLIED: Final = ErrorKind(
    "limit-not-applied",
    "{instance}: asked for {asked}, but inside there is {seen}",
    "`ullage doctor` shows which limits this host can set",
)

# --- containers and their network -----------------------------------------------------------------
INSTANCE_NOT_STARTED: Final = ErrorKind(
    "instance-not-started",
    "{provider} could not start {name}: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
INSTANCE_NOT_LIMITED: Final = ErrorKind(
    "instance-not-limited",
    "{provider} cannot limit {what} for {name} here: {reason}",
    "run as root, or write `memory: host` and whole CPUs under `resources:`",
)
NETWORK_FAILED: Final = ErrorKind(
    "network-failed",
    "iproute2 could not set up the run's network: {reason}",
    "`ullage doctor` shows what this host can do; `ullage clean` removes what an old run left",
)
NETWORK_FULL: Final = ErrorKind(
    "network-full", "{what} is in use on {where}", "use fewer instances, or end other runs first"
)
NETWORK_FILTERED: Final = ErrorKind(
    "network-filtered",
    "the host's packet filter drops frames between two ports of {bridge}",
    "accept them: `iptables -I FORWARD -s {blocks} -d {blocks} -j ACCEPT`",
)

# --- allocation -----------------------------------------------------------------------------------
ALLOCATION_NO_ROOM: Final = ErrorKind(
    "allocation-no-room",
    "{count} may come to use {asked} of memory, {each} each with what the hypervisor may use;"
    " this host has {free} left",
    "lower `count` or `memory`, end what else runs here, or use a larger host",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_NO_COPY: Final = ErrorKind(
    "allocation-no-copy",
    "an instance of {provider} cannot have a copy of the image of its own: {reason}",
    "write `copy: backing`, or make room on the disk",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_TOO_LATE: Final = ErrorKind(
    "allocation-too-late",
    "{name} was not ready within {seconds:g} s; the last that was seen of it: {last}",
    "what was begun is taken down; a slow host needs a longer limit",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_APPLICATION: Final = ErrorKind(
    "allocation-application",
    "the application in {name} does not work: {reason}",
    "try its command in an instance; what was begun is taken down",
    ExitCode.SOME_CELLS_FAILED,
)
RELEASE_TOO_LATE: Final = ErrorKind(
    "release-too-late",
    "{name} was not gone within {seconds:g} s",
    "its processes are killed; `ullage clean` removes what may still be there",
    ExitCode.SOME_CELLS_FAILED,
)

# --- workloads, providers and meters --------------------------------------------------------------
LIST_DUPLICATE: Final = ErrorKind(
    "list-duplicate",
    "two {what}s are called {name}: {first} and {second}",
    "give one of them another `name`",
)
LIST_BAD_INTERFACE: Final = ErrorKind(
    "list-bad-interface",
    "the {what} {name} does not keep the interface: {fault}",
    "`Add a {what}` in CONTRIBUTING.md shows a complete one",
)
WORKLOAD_FILES_TOO_SMALL: Final = ErrorKind(
    "workload-files-too-small",
    "{size} of files beside {memory} of memory would measure the page cache",
    "set `total_size` to {least} or more, or `direct: true`",
)

# --- elastic runs ---------------------------------------------------------------------------------
ELASTIC_FRONT_NOT_STARTED: Final = ErrorKind(
    "elastic-front-not-started",
    "the front did not start: {reason}",
    "mend `policy:`, `nodes:` or `room:` if that is what it says; docs/elastic-policies.md has"
    " the policies and their fields",
)
ELASTIC_FRONT_DIED: Final = ErrorKind(
    "elastic-front-died",
    "the front died {times} times, and was not started again: {how} {said}",
    "its own words are in front.stderr of the repetition; `budgets: front:` allows more restarts",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_VIEWERS_FAILED: Final = ErrorKind(
    "elastic-viewers-failed",
    "the viewers came to no result: {reason}",
    "their own words are in viewers.stderr of the repetition",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_TOO_LONG: Final = ErrorKind(
    "elastic-too-long",
    "the repetition was not over after {seconds:.0f} s",
    "`budgets: repetition:` allows more; see first whether this host is too slow for the plan",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_NO_ADDRESS: Final = ErrorKind(
    "elastic-no-address",
    "the nodes of {environment} would have no address that viewers can reach",
    "leave `network: user` out of the plan",
)
ELASTIC_BAD_TRACE: Final = ErrorKind(
    "elastic-bad-trace",
    "{file} is no trace of arrivals: {reason}",
    "write one instant a line, in seconds of the users' time",
)
ELASTIC_NO_CLIP: Final = ErrorKind(
    "elastic-no-clip",
    "the clip could not be made: {reason}",
    "see whether ffmpeg works here and the cache has room, or write `video: {{generate: bytes}}`",
)

# --- simulations of elastic runs ------------------------------------------------------------------
SIMULATION_BAD_TABLE: Final = ErrorKind(
    "simulation-bad-table",
    "{file}:{line}: no table of allocation times: {reason}",
    "write a CSV with a column `seconds`, and where known `concurrent` and `environment`",
)
SIMULATION_NO_LATENCIES: Final = ErrorKind(
    "simulation-no-latencies",
    "{source} says nothing of how long nodes take to come: {reason}",
    "name another run, table or environment, or write `allocation: {{time: 60s}}`",
)
SIMULATION_NO_CLUSTER: Final = ErrorKind(
    "simulation-no-cluster",
    "the Dask cluster at {address} cannot simulate: {reason}",
    "start a scheduler and workers that have ullage, or leave `--dask` out",
    ExitCode.SOME_CELLS_FAILED,
)

# --- the clock ------------------------------------------------------------------------------------
CLOCK_NOT_BUILT: Final = ErrorKind(
    "clock-not-built",
    "the clock's extension module cannot be loaded: {reason}",
    "`make build` builds it, for this machine and this Python",
)
CLOCK_NOT_MEASURED: Final = ErrorKind(
    "clock-not-measured",
    "{what} could not be measured: {reason}",
    "{suggestion}",
    ExitCode.GATE_FAILED,
)
CLOCK_NO_TOKEN: Final = ErrorKind(
    "clock-no-token",
    "there is no run token: {reason}",
    "let `ullage clock serve --token-file FILE` write one, copy the file to the other machine and"
    " name it with --token-file there too; or put the token into $ULLAGE_CLOCK_TOKEN",
)
CLOCK_BAD_TOKEN: Final = ErrorKind(
    "clock-bad-token",
    "{where} holds no run token: that is 32 hexadecimal digits",
    "`openssl rand -hex 16` makes one",
)
CLOCK_TOKEN_EXPOSED: Final = ErrorKind(
    "clock-token-exposed",
    "other users may read or change the run token in {file}",
    "`chmod 600 {file}`; if somebody may have read it, let `ullage clock serve` write a new one",
)
CLOCK_BAD_DISTORTION: Final = ErrorKind(
    "clock-bad-distortion",
    "{variable} is no distortion of a clock: {found}",
    "write PPB or PPB,NS in whole numbers, PPB from -1000000 to 1000000; or unset it",
)
CLOCK_STOPPED_ANSWERING: Final = ErrorKind(
    "clock-stopped-answering",
    "{address} stopped answering after {count}: {reason}",
    "what was measured until then is above; see whether the server still runs, and the network",
    ExitCode.GATE_FAILED,
)
CLOCK_BAD_ADDRESS: Final = ErrorKind(
    "clock-bad-address",
    "{found} is no address: {reason}",
    "write HOST, HOST:PORT or [IPV6]:PORT, such as 127.0.0.1:{port}",
)
CLOCK_CANNOT_SERVE: Final = ErrorKind(
    "clock-cannot-serve",
    "cannot serve the clock at {address}: {reason}",
    "take another port, or an address that this machine has; port 0 is any that is free",
    ExitCode.GATE_FAILED,
)
CLOCK_REFUSED: Final = ErrorKind(
    "clock-refused",
    "nobody serves a clock at {address}: the connection was refused",
    "start `ullage clock serve` there, or check the port; give --tcp on both sides, or on neither",
    ExitCode.GATE_FAILED,
)
CLOCK_NO_ANSWER: Final = ErrorKind(
    "clock-no-answer",
    "nobody at {address} answered within {seconds:.1f} s",
    "a server is silent towards a client with another token: compare the two; else see whether the"
    " server still runs, and whether a packet filter drops {protocol} to its port",
    ExitCode.GATE_FAILED,
)
CLOCK_NTP_FAILED: Final = ErrorKind(
    "clock-ntp-failed",
    "the NTP experiment: {what}: {reason}",
    "try again on a quieter host, or watch for longer; `ullage clean` removes what was left",
    ExitCode.SOME_CELLS_FAILED,
)
CLOCK_CONTRADICTION: Final = ErrorKind(
    "clock-contradiction",
    "what {address} answers cannot be: {reason}",
    "one of the two machines was suspended, moved or has a broken clock, or two servers answer"
    " there; `ullage clock check` on both tells more",
    ExitCode.GATE_FAILED,
)
CLOCK_TURNED_AWAY: Final = ErrorKind(
    "clock-turned-away",
    "{address} closed the connection",
    "a server turns away a client with another token: compare the two; else see whether the server"
    " still runs",
    ExitCode.GATE_FAILED,
)
CLOCK_UNREACHABLE: Final = ErrorKind(
    "clock-unreachable",
    "cannot reach {address}: {reason}",
    "check the address and the network between the two",
    ExitCode.GATE_FAILED,
)

# --- tables, query and export ---------------------------------------------------------------------
QUERY_FAILED: Final = ErrorKind(
    "query-failed",
    "DuckDB refuses the query: {reason}",
    "the views are samples, events, meters and clocks;"
    " `ullage query 'describe samples'` shows columns",
)
TABLES_NOT_WRITTEN: Final = ErrorKind(
    "tables-not-written",
    "cannot write the tables of {path}: {reason}",
    "copy the run folder to where you may write",
)
EXPORT_UNKNOWN_FORMAT: Final = ErrorKind(
    "export-unknown-format", "unknown format {found}; known are {allowed}", "{suggestion}"
)

# --- compare: tables of others --------------------------------------------------------------------
TABLE_NOT_READABLE: Final = ErrorKind(
    "table-not-readable", "cannot read the table {file}: {reason}", "{suggestion}"
)
TABLE_NO_COLUMN: Final = ErrorKind(
    "table-no-column",
    "{file} has no column {column}; it has {found}",
    "{suggestion}; `--column {role}=NAME` maps another name",
)
TABLE_BAD_CELL: Final = ErrorKind(
    "table-bad-cell", "{file}: row {row}: {column}: found {found}; {allowed}", "{suggestion}"
)
TABLE_CONTRADICTS: Final = ErrorKind(
    "table-contradicts",
    "{file}: row {row}: {what} has the {column} {found}, but {first} before",
    "{suggestion}",
)
TABLE_NO_ROWS: Final = ErrorKind(
    "table-no-rows", "{file} holds {what}", "each row is one measurement of one environment"
)
TABLE_NO_ENVIRONMENT: Final = ErrorKind(
    "table-no-environment", "{file} has no environment {found}", "{suggestion}"
)
TABLE_NO_DIRECTION: Final = ErrorKind(
    "table-no-direction",
    "{file} does not say whether more or less of {metric} is better",
    "give `--better lower` (times, costs) or `--better higher` (rates), or a column `better`",
)
TABLE_TWO_DIRECTIONS: Final = ErrorKind(
    "table-two-directions",
    "{file}: `--better {better}` would hold for {metric} (in {unit}) as for {other} "
    "(in {other_unit})",
    "leave `--better` out and add a column `better` with lower or higher for each metric",
)
TABLE_TOO_MANY: Final = ErrorKind(
    "table-too-many",
    "{file} holds {found} {what}; at most {most} can be compared",
    "does `--column` map the right columns? Else compare a part of the table",
)

# --- weigh ----------------------------------------------------------------------------------------
WEIGHTS_NOT_ONE: Final = ErrorKind(
    "weights-not-one",
    "the weights {given} add up to {total}, not to 1",
    "in the same proportions: {corrected}",
)
WEIGH_NO_ENVIRONMENT: Final = ErrorKind(
    "weigh-no-environment", "{run} has no environment {found} to weigh", "{suggestion}"
)
WEIGH_NO_FIGURE: Final = ErrorKind(
    "weigh-no-figure", "{environment} cannot be weighed for {resource}: {reason}", "{suggestion}"
)
