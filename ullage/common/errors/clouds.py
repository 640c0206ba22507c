"""Errors of clouds."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

CLOUD_CREDENTIALS: Final = ErrorKind(
    "cloud-credentials",
    "{cloud} does not take our credentials: {reason}",
    "`ullage cloud check PLAN` tries them; the cloud's own client reads them, never from the plan",
)
CLOUD_QUOTA: Final = ErrorKind(
    "cloud-quota",
    "{cloud} has no room for {name}: {reason}",
    "use fewer or smaller instances, or ask for a larger quota",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_LACKS: Final = ErrorKind(
    "cloud-lacks",
    "{cloud} does not know what {call} needs: {reason}",
    "the cloud's own client lists its flavors, images and networks",
)
CLOUD_REFUSED: Final = ErrorKind(
    "cloud-refused",
    "{cloud} refuses {call}: {reason}",
    "the words are the cloud's own",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_NO_ANSWER: Final = ErrorKind(
    "cloud-no-answer",
    "{cloud} has not answered {call} in {tries} tries: {reason}",
    "look whether its API can be reached from here; `--resume` takes the run up",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_INSTANCE_FAILED: Final = ErrorKind(
    "cloud-instance-failed",
    "{cloud} could not run {name}: {reason}",
    "the words are the cloud's own; its administrator sees more",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_NOT_UP: Final = ErrorKind(
    "cloud-not-up",
    "{name} was not up within {seconds:g} s; the last that was seen: {last}",
    "look at its console; is ssh open to us? a slow cloud needs a longer `deadline_s`",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_HOST_KEY: Final = ErrorKind(
    "cloud-host-key",
    "what answers at {address} has not the host key of {name}",
    "somebody else may be answering there; an image without cloud-init needs `host_key: console`",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_FLAVOR: Final = ErrorKind(
    "cloud-flavor",
    "the flavor {flavor} of {cloud} has {has}, and the plan asks for {asked}",
    "let `resources` say what the flavor has, or choose another",
)
CLOUD_NETWORK: Final = ErrorKind(
    "cloud-network",
    "a workload between endpoints cannot reach {name}: it is not on this host's network",
    "leave network workloads out, or the environment in {cloud}",
)
CLOUD_VANISHED: Final = ErrorKind(
    "cloud-vanished",
    "{name} is gone in the midst of its work; {cloud} says: {state}",
    "it is made again when its turn comes; spot instances may be taken back",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_TAG_TAKEN: Final = ErrorKind(
    "cloud-tag-taken",
    "{cloud} has {there} under this run's tag, and this run has not made it",
    "nothing was removed: `ullage cloud list` shows what is there; a new run draws another tag",
    ExitCode.SOME_CELLS_FAILED,
)
CLOUD_IMAGE_CORRUPT: Final = ErrorKind(
    "cloud-image-corrupt",
    "{what} that arrived in {name} is not what was sent",
    "try again; if it stays so, the connection or the disk there damages data",
    ExitCode.SOME_CELLS_FAILED,
)
