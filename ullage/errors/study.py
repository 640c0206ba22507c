"""Errors of studies."""

from typing import Final

from ullage.errors.kind import ErrorKind

STUDY_UNKNOWN: Final = ErrorKind("study-unknown", "there is no study {found}", "{suggestion}")
STUDY_NOT_BEGUN: Final = ErrorKind(
    "study-not-begun",
    "there is nothing to resume: no run of {allowed} is in {runs}",
    "`{command}` begins the study; `--runs` says where else its runs may be",
)
STUDY_OTHER_RUN: Final = ErrorKind(
    "study-other-run",
    "{path} is a run of the plan {found}, and wanted is one of {allowed}",
    "`ullage study run {study}` makes the runs of this study; those of its quick and of its full "
    "form, and two of one plan, are shown apart",
)
