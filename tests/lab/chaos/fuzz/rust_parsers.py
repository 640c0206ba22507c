"""The parsers in Rust, by the changed inputs of `rust/mutate`, in a test of each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError
from tests.lab.chaos.controller import stretched_s

_PROGRAMS: Final = ("agent", "front", "load", "viewers")
_OF_PROGRAMS: Final = (*(f"--package=ullage-{name}" for name in _PROGRAMS), "--bins")
"""All together, so that what they share is built once."""
_OF_CLOCK: Final = ("--package=ullage-clock", "--lib")
_PARSERS: Final = {
    "agent-frames": (_OF_PROGRAMS, "changed_frames_never_panic"),
    "agent-requests": (_OF_PROGRAMS, "changed_requests_never_panic"),
    "front-requests": (_OF_PROGRAMS, "changed_requests_do_not_break_it"),
    "front-controller": (_OF_PROGRAMS, "changed_words_end_it_in_order"),
    "viewers-http": (_OF_PROGRAMS, "changed_words_are_survived"),
    "load-icmp": (_OF_PROGRAMS, "changed_packets_are_survived"),
    "rgap": (_OF_CLOCK, "changed_messages_are_refused_or_are_what_they_say"),
}
"""Parser → where its test is, and what it is called."""
_INPUTS: Final = 1_000_000
_PATIENCE_S: Final = 600.0
_DONE: Final = re.compile(r"(\d+) changed inputs were read")


def _cases(seed: int) -> Iterable[str]:
    return list(_PARSERS)


def play(case: Case) -> None:
    """All inputs of one."""
    where, test = _PARSERS[case.name]
    argv = ["cargo", "test", "--locked", "--quiet", *where, test, "--", "--nocapture"]
    seed = str(case.random.randrange(2**63))
    env = {**os.environ, "MUTATIONS": str(_INPUTS), "MUTATION_SEED": seed}
    env.pop("LD_PRELOAD", None)
    ended = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=stretched_s(_PATIENCE_S),
    )
    if ended.returncode != 0:
        raise FaultFoundError((ended.stdout + ended.stderr)[-500:])
    case.counts["inputs"] += sum(int(count) for count in _DONE.findall(ended.stdout))


CAMPAIGN: Final = Campaign(
    name="rust-parsers",
    figure="inputs per parser in Rust",
    reach=f"{_INPUTS:,} each, 0 crashes",
    cases=_cases,
    play=play,
)
