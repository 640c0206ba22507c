"""Errors of weigh."""

from typing import Final

from ullage.errors.kind import ErrorKind

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
