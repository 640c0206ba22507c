"""Errors of what is read: tables of others, queries, exports, weighing; and of perf's samples."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

# Errors of compare: tables of others.

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
RUNS_NOT_ALIKE: Final = ErrorKind(
    "runs-not-alike",
    "{run} cannot be compared with {base}: {reason}",
    "compare runs of one plan, or of plans with the same baseline and some of the same workloads",
)

# Errors of runs that lie elsewhere.

FETCH_NOT_THERE: Final = ErrorKind(
    "fetch-not-there",
    "no run can be had at {address}: {reason}",
    "check the address, and who may read it; for s3:// the usual AWS_ variables have the key",
)
FETCH_NO_ANSWER: Final = ErrorKind(
    "fetch-no-answer",
    "{address} cannot be fetched: {reason}",
    "check the network, and `https_proxy` where there is one; a run folder here needs neither",
)
FETCH_TOO_LARGE: Final = ErrorKind(
    "fetch-too-large",
    "what lies at {address} is larger than {most}",
    "leave raw outputs out: `tar czf run.tar.gz --exclude=trials -C runs NAME`",
)
FETCH_NO_RUN: Final = ErrorKind(
    "fetch-no-run",
    "what lies at {address} is no archive of a run: {reason}",
    "`tar czf run.tar.gz -C runs NAME` makes one",
)
ADDRESS_HAS_KEY: Final = ErrorKind(
    "address-has-key",
    "an address has a user, a key or a port in it, which who lists processes here sees",
    "keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role; an S3 server"
    " is `?endpoint_override=HOST:PORT`",
)
STORE_HAS_RUN: Final = ErrorKind(
    "store-has-run",
    "{address} is there already",
    "`ullage upload --replace` puts this run in its place",
)
STORE_NOT_WRITTEN: Final = ErrorKind(
    "store-not-written",
    "{address} could not be put there: {reason}",
    "free space, or look after the store, then `ullage upload` again",
)
STORE_NOT_KEPT: Final = ErrorKind(
    "store-not-kept",
    "{address} cannot be kept in the cache: {reason}",
    "free space there; ULLAGE_CACHE_DIR names another place for it",
)
STORE_FOR_READERS: Final = ErrorKind(
    "store-for-readers",
    "--runs {address}: this command makes runs, and those are made on a disk of this machine",
    "run it here, then `ullage upload RUN {address}`",
)
UPLOAD_UNFINISHED: Final = ErrorKind(
    "upload-unfinished",
    "{path} has not finished",
    "`ullage run --resume {path}` finishes it",
)
UPLOAD_ELASTIC: Final = ErrorKind(
    "upload-elastic",
    "{path} is the run of an elastic plan: stores have none, so far",
    "copy its folder; `ullage elastic` has commands to read it",
)
UPLOAD_BAD_NAME: Final = ErrorKind(
    "upload-bad-name",
    "{path}: no reader takes an archive of that name",
    "rename the folder: up to 200 letters, digits, `.`, `_`, `-`, the first a letter or a digit",
)
UPLOAD_UNREADABLE: Final = ErrorKind(
    "upload-unreadable",
    "{path} stays here, no reader could have it there: {reason}",
    "`--no-raw` leaves the outputs of its trials out; `ullage verify {path}` says what was changed",
)
FETCH_CHANGED: Final = ErrorKind(
    "fetch-changed",
    "the run at {address} is not as it was written: {reason}",
    "put it there anew; `ullage verify` tells whether the folder it was made of still holds",
)

# Errors of gate.

GATE_NOT_ALIKE: Final = ErrorKind(
    "gate-not-alike",
    "{base} is no baseline for {new}: {reason}",
    "make a baseline here, by the same plan; `--allow {word}` compares all the same",
)
GATE_NO_REFERENCE: Final = ErrorKind(
    "gate-no-reference",
    "{run} has no workload {found} with a primary figure",
    "`--reference` names a workload of the plan that no change of yours touches, as sysbench-cpu",
)
GATE_NO_METRIC: Final = ErrorKind(
    "gate-no-metric",
    "{run} has no metric {found} that a gate can judge; it has {allowed}",
    "{suggestion}",
)
GATE_NO_PAIR: Final = ErrorKind(
    "gate-no-pair",
    "{run} has no two workloads {found}; it has {allowed}",
    "`--pair NEW=OLD` names two workloads of one plan, each by its `as:`; {suggestion}",
)
GATE_NOTHING: Final = ErrorKind(
    "gate-nothing",
    "{new} and {base} share no figure that a gate can judge",
    "both need the same environments and workloads; curves have no single ratio; see `--metric`",
)


# Errors of tables, query and export.

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
EXPORT_NO_PICTURE: Final = ErrorKind(
    "export-no-picture",
    "the picture {picture} cannot be written as {form}, which is a table",
    "add `--format` with one of {allowed}, or leave `--picture` out for the table",
)
EXPORT_NOTHING_FITS: Final = ErrorKind(
    "export-nothing-fits",
    "{run} has no primary figure that {form} can hold",
    "other tools know times in seconds; csv, json and parquet hold every figure",
)
EXPORT_NO_TABLE: Final = ErrorKind(
    "export-no-table",
    "the table of energies cannot be written as {form}, which is a picture",
    "`--picture energy --format {form}`, without `--energy`, draws them; tables are csv, json, "
    "latex, parquet",
)
EXPORT_UNKNOWN_PICTURE: Final = ErrorKind(
    "export-unknown-picture", "{run} has no picture {found}; it has {allowed}", "{suggestion}"
)


# Errors of weigh.

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


PERF_MISSING: Final = ErrorKind(
    "perf-missing",
    "perf is not here, so the host's CPUs cannot be profiled",
    "install it: apt-get install linux-perf",
)
PERF_DENIED: Final = ErrorKind(
    "perf-denied",
    "perf may not look at this host ({reason}), so its CPUs cannot be profiled",
    "run as root, outside of a container, or set kernel.perf_event_paranoid to -1",
)
PERF_BROKEN: Final = ErrorKind(
    "perf-broken",
    "perf gave nothing to trust ({reason}), so the host's CPUs cannot be profiled",
    "try `perf record -e cpu-clock -a -- sleep 1`; on Debian, linux-perf fits every kernel",
)
