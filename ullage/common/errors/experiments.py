"""Errors of experiments: elastic runs and their simulations, profiles, studies, the clock."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

# Errors of elastic runs.

ELASTIC_FRONT_NOT_STARTED: Final = ErrorKind(
    "elastic-front-not-started",
    "the front did not start: {reason}",
    "mend `policy:`, `nodes:` or `room:` if that is what it says; docs/guide/elastic-policies.md"
    " has the policies and their fields",
)
ELASTIC_FRONT_DIED: Final = ErrorKind(
    "elastic-front-died",
    "the front died {times} times, and was not started again: {how} {stderr}",
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
ELASTIC_HOST_TOO_SMALL: Final = ErrorKind(
    "elastic-host-too-small",
    "the plan asks for {asked}, this host has {has}",
    "lower `resources:` of the nodes or of `generators:`, keep fewer nodes (`nodes: min:`), have "
    "fewer generators, or use a larger host",
)
ELASTIC_NO_MACHINE: Final = ErrorKind(
    "elastic-no-machine",
    "no machine of the plan can take a node now: {reasons}",
    "look at those machines; one that was lost is reached anew before the next repetition",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_NO_ADDRESS: Final = ErrorKind(
    "elastic-no-address",
    "{machines} would have no address on the run's bridge",
    "leave `network: user` out of the plan",
)
ELASTIC_BAD_TRACE: Final = ErrorKind(
    "elastic-bad-trace",
    "{file} is no trace of arrivals: {reason}",
    "write one instant a line, in seconds of the users' time",
)
ELASTIC_NO_CAPACITY: Final = ErrorKind(
    "elastic-no-capacity",
    "{run} does not say how many viewers a node of {environment} takes: {reason}",
    "run a plan with `streaming` and these `resources` first, or write `room:` as a number",
)
ELASTIC_NO_CLIP: Final = ErrorKind(
    "elastic-no-clip",
    "the clip could not be made: {reason}",
    "see whether ffmpeg works here and the cache has room, or write `video: {{generate: bytes}}`",
)
ELASTIC_FRONT_SILENT: Final = ErrorKind(
    "elastic-front-silent",
    "the front runs, and has answered nobody for {seconds:.0f} s",
    "see front.stderr of the repetition, and whether this host is far too busy for the plan",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_GENERATOR_CUT_OFF: Final = ErrorKind(
    "elastic-generator-cut-off",
    "{name} does not reach the front: {reason}",
    "let the host's packet filter accept what comes in on the run's bridge: `ullage doctor`",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_GENERATOR_FAILED: Final = ErrorKind(
    "elastic-generator-failed",
    "the viewers of {name} came to no result: {reason}",
    "what it said is in `generators/` of the repetition",
    ExitCode.SOME_CELLS_FAILED,
)


# Errors of profiles.

PROFILE_NO_PROGRAM: Final = ErrorKind(
    "profile-no-program",
    "there is no program {program} to profile",
    "after `--` stands a program with its arguments; no shell reads it",
)
PROFILE_TOO_MANY_CPUS: Final = ErrorKind(
    "profile-too-many-cpus",
    "the command is to have {cpus} CPUs, and ullage may use {here} here",
    "give `--cpus {here}` or fewer; without it there are as many as in the environments of `--run`,"
    " else one",
)
PROFILE_FAILED: Final = ErrorKind(
    "profile-failed",
    "the command failed although nothing slowed it: {reason}",
    "{suggestion}",
    ExitCode.SOME_CELLS_FAILED,
)
PROFILE_TOO_SHORT: Final = ErrorKind(
    "profile-too-short",
    "the command takes {seconds:.3g} s: too short to see what slows it",
    "let it do more work, at least {least:g} s of it; a command such as `make` must do all of its "
    "work each time (`make -B`)",
)
PROFILE_BUDGET: Final = ErrorKind(
    "profile-budget",
    "the command takes {seconds:.3g} s: {blocks} blocks of {conditions} trials take {needed}, and "
    "the budget is {budget}",
    "give a larger `--budget`, fewer `--resources`, or the command less work",
)
PROFILE_NOTHING: Final = ErrorKind(
    "profile-nothing",
    "nothing can be slowed down for this command here: {reasons}",
    "`ullage doctor` shows what this host lacks; `ullage weigh --weights` takes weights of yours",
)
PROFILE_NO_FIGURE: Final = ErrorKind(
    "profile-no-figure",
    "there are no weights: {reason}",
    "what the trials printed lies in {folder}/trials",
    ExitCode.SOME_CELLS_FAILED,
)
PROFILE_NO_RATIO: Final = ErrorKind(
    "profile-no-ratio",
    "nothing is predicted for {environment}: {reason}",
    "run a workload of {resource} there, in the same plan as the others",
)
PROFILE_BAD_FILE: Final = ErrorKind(
    "profile-bad-file",
    "{path} is no profile: {reason}",
    "`ullage profile --save FILE -- COMMAND` writes one",
)


# Errors of simulations of elastic runs.

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
    "start a scheduler and workers that have ullage, see that `sbatch` works, or leave "
    "`--dask` out",
    ExitCode.SOME_CELLS_FAILED,
)


# Errors of studies.

STUDY_UNKNOWN: Final = ErrorKind("study-unknown", "there is no study {found}", "{suggestion}")
STUDY_NOT_BEGUN: Final = ErrorKind(
    "study-not-begun",
    "there is nothing to resume: no run of {allowed} is in {runs}",
    "`{command}` begins the study; `--runs` says where else its runs may be",
)
STUDY_OTHER_RUN: Final = ErrorKind(
    "study-other-run",
    "{path} is a run of the plan {found}, and not of one of {allowed}",
    "`ullage study run {study}` makes the runs of this study; those of its quick and of its full "
    "form, and two of one plan, are shown apart",
)
STUDY_UNKNOWN_PLAN: Final = ErrorKind(
    "study-unknown-plan",
    "the study has no plan {found} in this form",
    "{suggestion}; `ullage study list --json` has all",
)
STUDY_TOO_LARGE: Final = ErrorKind(
    "study-too-large",
    "{count} of {study} do not fit this host; {first}: {reason}",
    "{suggestion}",
)
STUDY_NO_DISKS: Final = ErrorKind(
    "study-no-disks",
    "no plan of {study} that is to run compares disks of the user's choice",
    "leave out `--disk`; flash-energy has such plans",
)
STUDY_WANTS_DISKS: Final = ErrorKind(
    "study-wants-disks",
    "the plan compares disks of {study}, and none is named",
    "`--disk DIRECTORY`, once for each disk: `--disk /mnt/hdd --disk /mnt/ssd`",
)
STUDY_NO_CLOUDS: Final = ErrorKind(
    "study-no-clouds",
    "no plan of {study} that is to run makes instances of a cloud",
    "leave out `--cloud`; elastic-clock and network-pipeline have such plans",
)
STUDY_WANTS_CLOUD: Final = ErrorKind(
    "study-wants-cloud",
    "{plan} makes instances of a cloud, and {found}",
    "`--cloud PLAN`, a plan of yours that has one; `ullage cloud check PLAN` tries it",
)
STUDY_NO_ROOM: Final = ErrorKind(
    "study-no-room",
    "{plan} takes its nodes' room from {step}, of which no run that has ended is in {runs}",
    "`{command}` measures it first; `--runs` says where else a run of it may be",
)
STUDY_CHANGED: Final = ErrorKind(
    "study-changed",
    "{path} is not as it was transcribed: its SHA-256 is not the one in {sums}",
    "install ullage anew, or `git checkout {path}`; a figure that was corrected on purpose wants "
    "its new checksum there",
)


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
    "`ullage clock serve --token-file FILE` writes one; copy it here and name it with --token-file,"
    " or put the token into $ULLAGE_CLOCK_TOKEN",
)
CLOCK_BAD_TOKEN: Final = ErrorKind(
    "clock-bad-token",
    "{where} holds no run token: that is 32 hexadecimal digits",
    "`openssl rand -hex 16` makes one",
)
CLOCK_TOKEN_EXPOSED: Final = ErrorKind(
    "clock-token-exposed",
    "other users may read or change the run token in {file}",
    "`chmod 600 {typed}`; if somebody may have read it, let `ullage clock serve` write a new one",
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
    "compare the tokens of both sides: a server is silent to a wrong one; else see whether it runs,"
    " and whether a packet filter drops {protocol} to its port",
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
    "what {address} answers cannot be true: {reason}",
    "one machine was suspended or moved, its clock is broken, or two servers answer there; try"
    " `ullage clock check` on both",
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

# Errors of `ullage try`.

TRY_NO_PROGRAM: Final = ErrorKind(
    "try-no-program",
    "this host has no program {program}",
    "give the program and its arguments after `--`; a line for a shell is `-- sh -c '…'`",
)
TRY_NOT_IN_IMAGE: Final = ErrorKind(
    "try-not-in-image",
    "{program} is of no Debian package, so the image that all environments share cannot hold it",
    "name a container image of yours that has it, `--image NAME`, or write a plan (`ullage init`)"
    " with `image: {{files: {{{program}: {program}}}}}`; without VMs `--image host` does it too",
)
TRY_HIDDEN: Final = ErrorKind(
    "try-hidden",
    "{program} is below {folder}, of which every container has its own",
    "put it elsewhere, such as /usr/local/bin, or into an image of yours: `--image NAME`",
)
TRY_ALONE: Final = ErrorKind(
    "try-alone",
    "nothing to compare: {names} alone can run here. {absent}",
    "`ullage doctor` says what is missing, `ullage setup` how to add it",
)
TRY_FAILED: Final = ErrorKind(
    "try-failed",
    "it did not end well in {environment}: {reason}",
    "mend that first, no environment was compared; what it printed is in {folder}",
    ExitCode.SOME_CELLS_FAILED,
)
TRY_READ_ONLY: Final = ErrorKind(
    "try-read-only",
    "it did not end well in {environment}, where its root is read-only: {reason}",
    "give `--root writable` to an image (in a plan, `root: writable`), or write to /data or /tmp;"
    " what it printed is in {folder}",
    ExitCode.SOME_CELLS_FAILED,
)
TRY_TOO_SHORT: Final = ErrorKind(
    "try-too-short",
    "two blocks take about {needed}, and {left} of --within {within} are left",
    "give --within {suggestion}, or fewer environments with --in",
)

TUNE_NO_SETTING: Final = ErrorKind(
    "tune-no-setting",
    "no setting to tune: {reason}",
    "name some with --settings, of: {known}",
)
TUNE_TOO_FEW: Final = ErrorKind(
    "tune-too-few",
    "{whole} of {blocks} blocks have every figure, and two are needed: {reason}",
    "mend that first, or give more --blocks; the trials are in {folder}",
    ExitCode.SOME_CELLS_FAILED,
)

# Errors of ullage as a library.

RUN_INTERRUPTED: Final = ErrorKind(
    "run-interrupted", "{path} was interrupted", "`ullage run --resume {path}` goes on"
)
