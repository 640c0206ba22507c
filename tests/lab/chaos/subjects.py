"""Small runs of every kind, and what has to hold of each after any fault.

No finished trial is lost or doubled, no figure is wrong, and of the run's tags nothing is left on
the host.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.lab.chaos.campaign import Case, FaultFoundError
from tests.lab.chaos.controller import Controller, Fault
from tests.lab.traces import left_with
from ullage.host import leftovers

RESUMED_S: Final = 300.0
"""The last `--resume` of a small run ends within so long; the machine may be loaded."""
_LATE: Final = "clock-broken"
"""What a trial is refused with whose end was seen late: nothing is lost by that but its figures."""
SLEEP_S: Final = 0.005
WORD: Final = "42"

_ORDINARY: Final = """\
name: chaos
baseline: native
{image}resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
{others}workloads:
  - {{name: command, argv: [sh, -c, "sleep {sleep}; echo {word}"], expect_output: "{word}"}}
{second}blocks: {{min: {blocks}, max: {blocks}}}
seed: 3
"""
_SECOND: Final = """\
  - {{name: command, as: child, argv: [sh, -c, "sleep {sleep} & wait; echo {word}"]}}
"""
_ELASTIC: Final = """\
name: chaos
baseline: node
room: 2
resources: {cpus: 1, memory: 128MiB}
environments: {node: {provider: oci}}
nodes: {max: 3}
arrivals: {kind: uniform, rate: 4, viewers: 4}
video: {length: 1, bitrate: 100000, generate: bytes}
patience: 30
repetitions: 2
lateness_limit: 60
seed: 7
"""


@dataclass(frozen=True)
class Subject:
    """A kind of run."""

    name: str
    plan: str
    finished: int
    """Trials, or repetitions, of the whole run."""
    command: tuple[str, ...] = ("run",)
    options: tuple[str, ...] = ()
    event: str = "trial"
    """What the journal calls one of those that were finished."""
    usual_s: float = 1.5
    """How long a controller is worth killing, roughly."""


def _ordinary(
    name: str, provider: str = "", *, blocks: int = 4, workloads: int = 2, **fields: Any
) -> Subject:
    """Native beside a provider; without one, native alone, on the host's own root."""
    second = _SECOND.format(sleep=SLEEP_S, word=WORD) if workloads == 2 else ""
    plan = _ORDINARY.format(
        image="" if provider else "image: host\n",
        others=f"  other: {{provider: {provider}}}\n" if provider else "",
        sleep=SLEEP_S,
        word=WORD,
        second=second,
        blocks=blocks,
    )
    environments = 3 if provider else 2  # native stands twice
    return Subject(name, plan, finished=blocks * environments * workloads, **fields)


SUBJECTS: Final = {
    subject.name: subject
    for subject in (
        _ordinary("native"),
        _ordinary("live", options=("--live",)),
        _ordinary("oci", "oci", usual_s=2.5),
        _ordinary("lxc", "lxc", usual_s=3.0),
        _ordinary("docker", "oci, runtime: docker", blocks=4, usual_s=3.0),
        _ordinary("qemu", "qemu", blocks=2, usual_s=8.0),
        Subject("elastic", _ELASTIC, 2, ("elastic", "run"), event="repetition", usual_s=5.0),
    )
}

CROWDED: Final = _ordinary("live", blocks=40, options=("--live",), usual_s=20.0)
"""Of a live page that strangers crowd."""

SMALL: Final = {
    "native": _ordinary("native", blocks=1, workloads=1),
    "oci": _ordinary("oci", "oci", blocks=1, workloads=1),
    "lxc": _ordinary("lxc", "lxc", blocks=1, workloads=1),
    "elastic": SUBJECTS["elastic"],
}
"""As small as it can be: each of its system calls is attacked."""


@dataclass
class Attacked:
    """One run of a subject, through all its controllers."""

    case: Case
    subject: Subject
    journal: bytes = b""
    """Its whole lines, as the last controller left them."""
    tags: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        place = self.case.place
        for name in ("state", "data", "cache"):
            (place / name).mkdir()
            os.environ[f"ULLAGE_{name.upper()}_DIR"] = str(place / name)
        # What takes minutes to make is shared, what a run writes there is its own.
        for shared in ("images", "kernels", "probes"):
            (place / "cache" / shared).symlink_to(Path("/var/cache/ullage") / shared)
        (place / "plan.yaml").write_text(self.subject.plan, encoding="utf-8")

    @property
    def folder(self) -> Path | None:
        """The run's folder, once there is one."""
        runs = self.case.place / "runs"
        folders = sorted(runs.iterdir()) if runs.is_dir() else []
        if len(folders) > 1:
            raise FaultFoundError(f"{len(folders)} run folders of one run")
        return folders[0] if folders else None

    def start(self, fault: Fault | None = None) -> Controller:
        """The run, or `--resume` of it."""
        folder = self.folder
        begun = folder is not None and (folder / "plan.yaml").is_file()
        if folder is not None and not begun:
            shutil.rmtree(folder)  # nothing of it was begun
        source = ("--resume", str(folder)) if begun else ("plan.yaml",)
        argv = [*self.subject.command, *source, "--runs", "runs", *self.subject.options]
        return Controller(argv, self.case.place, fault)

    def run_on(self, within_s: float = RESUMED_S) -> Controller:
        """Take it up until it ends."""
        controller = self.start()
        if not controller.gone(within_s):
            self.see()
            controller.kill()
            raise FaultFoundError(f"`--resume` has not ended after {within_s:g} s")
        self.see()
        return controller

    def see(self) -> None:
        """Nothing that was finished may be gone or changed; called when no controller lives."""
        self.tags |= {path.name for path in (self.case.place / "state").glob("u*")}
        self.tags |= {path.name for path in (self.case.place / "data").glob("u*")}
        if (folder := self.folder) is None or not (folder / "journal.jsonl").exists():
            if self.journal:
                raise FaultFoundError("the journal is gone")
            return
        text = (folder / "journal.jsonl").read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        before, now = self._ended(self.journal), self._ended(whole)
        if now[: len(before)] != before:
            raise FaultFoundError("a finished trial was lost or changed")
        self.journal = whole
        for line in whole.splitlines():
            event = json.loads(line)
            if event["event"] == "started":
                self.tags.add(event["tag"])

    def check_whole(self, *, failures: bool = False) -> None:
        """The run is finished: each once, and right. failures: trials may have no figures.

        Without, only those may have none that a busy machine made late.
        """
        self.check_ended(self._ended(self.journal), self.subject.finished, failures=failures)

    def check_ended(self, lines: list[bytes], count: int, *, failures: bool) -> None:
        """So many are finished, none twice, with figures that can be."""
        ended = [json.loads(line) for line in lines]
        if self.subject.event == "trial":
            names: list[Any] = [event["trial"] for event in ended]
        else:
            names = [(event["environment"], event["repetition"]) for event in ended]
        if len(set(map(str, names))) != len(names):
            raise FaultFoundError("something was done twice")
        if len(names) != count:
            raise FaultFoundError(f"{len(names)} of {count} are finished")
        for event in ended:
            if event["status"] != "ok":
                late = event["reason"]["code"] == _LATE
                self.case.counts["late_trials"] += late
                if not (failures or late):
                    raise FaultFoundError(f"it did not go well: {event['reason']}")
            elif self.subject.event == "trial":
                self._check_figure(event)

    def _check_figure(self, event: dict[str, Any]) -> None:
        seconds = event["metrics"]["seconds"]
        if not 0 < seconds <= (event["end_ns"] - event["start_ns"]) / 1e9 + 1e-3:
            raise FaultFoundError(f"{event['trial']}: {seconds} s cannot be")
        self.check_output(event["trial"], seconds)

    def check_output(self, trial: str, seconds: float) -> None:
        """It slept, and printed its word."""
        folder = self.folder
        assert folder is not None
        if seconds < SLEEP_S:
            raise FaultFoundError(f"{trial}: {seconds} s cannot be")
        for output in (folder / "trials" / trial).glob("*stdout*"):
            if output.read_text(encoding="utf-8") != f"{WORD}\n":
                raise FaultFoundError(f"{trial}: {output.name} is not what was printed")

    def clean(self) -> None:
        """What `ullage clean` does, of these tags alone: others run here too."""
        for tag in sorted(self.tags):
            for leftover, reason in leftovers.remove(leftovers.find(tag)):
                raise FaultFoundError(f"clean: {leftover.kind} {leftover.name}: {reason}")
        self.check_nothing_left("after clean")

    def check_nothing_left(self, when: str) -> None:
        """Of any of its tags, by our own finder and by the system's tools."""
        if self.tags and (left := left_with(self.tags)):
            raise FaultFoundError(f"{when}, {len(left)} things are left: {left[0][:200]}")

    def count_ended(self) -> int:
        """How many were finished by now, while a controller lives."""
        journals = (self.case.place / "runs").glob("*/journal.jsonl")
        return sum(len(self._ended(journal.read_bytes())) for journal in journals)

    def processes(self) -> list[int]:
        """All that carry one of its tags, but no controller."""
        self.tags |= {path.name for path in (self.case.place / "state").glob("u*")}
        return [
            int(leftover.name.partition("@")[0])
            for leftover in leftovers._find_processes()  # to look for all kinds takes a second
            if leftover.tag in self.tags
        ]

    def _ended(self, journal: bytes) -> list[bytes]:
        start = f'{{"event":"{self.subject.event}"'.encode()
        return [line for line in journal.splitlines() if line.startswith(start)]


def abandon(place: Path) -> None:
    """Remove what a case that failed has left on the host; its own words stay in its folder."""
    tags = {path.name for name in ("state", "data") for path in place.rglob(f"{name}/u*")}
    for tag in sorted(tags):
        leftovers.remove(leftovers.find(tag, force=True))


def terminate(controller: Controller, number: int, within_s: float) -> None:
    """Tell a controller to end by a signal; FaultFoundError when it does not."""
    controller.signal(number)
    if not controller.gone(within_s):
        words = controller.stderr[-300:]
        controller.kill()
        raise FaultFoundError(f"still there {within_s:g} s after signal {number}: {words}")


def check_words(controller: Controller) -> None:
    """Whatever went wrong, it is said in a sentence."""
    if "Traceback (most recent call last)" in controller.stderr:
        last = controller.stderr.strip().splitlines()[-1]
        raise FaultFoundError(f"a traceback: {last[:300]}")
