"""A small study as a subject of kills: two runs after one another, taken up by `study run`."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.experiments.studies import toystudy
from tests.lab.chaos.campaign import FaultFoundError
from tests.lab.chaos.controller import Controller, Fault
from tests.lab.chaos.subjects import Attacked, Subject
from ullage.experiments import studies
from ullage.experiments.studies import finding
from ullage.runs.records import JOURNAL

_PLANS: Final = toystudy.Toy().plans(True)
_TRIALS: Final = 6
"""Of each plan: two blocks of native, which stands twice, and another."""
STUDY: Final = Subject("study", "", _TRIALS * len(_PLANS), usual_s=4.0)


class AttackedStudy(Attacked):
    """Like a run, but for its folders, of which each plan has one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        os.environ[toystudy.PLACE] = str(toystudy.write(self.case.place / "toy"))
        studies.STUDIES = (toystudy.Toy,)
        self._journals: dict[str, bytes] = {}

    def start(self, fault: Fault | None = None) -> Controller:
        """The study, or `--resume` of it once there is a run that it can go on with."""
        runs = self.case.place / "runs"
        again = ["--resume"] if finding.begun(toystudy.Toy(), _PLANS, runs) else []
        argv = ["study", "run", toystudy.Toy.name, "--quick", "--runs", "runs", *again]
        return Controller(argv, self.case.place, fault)

    def see(self) -> None:
        """Nothing that was finished is gone or changed, in any folder."""
        for name in ("state", "data"):
            self.tags |= {path.name for path in (self.case.place / name).glob("u*")}
        now = dict(self._whole())
        for folder, journal in self._journals.items():
            before = self._ended(journal)
            if self._ended(now.get(folder, b""))[: len(before)] != before:
                raise FaultFoundError(f"{folder}: a finished trial was lost or changed")
        self._journals = now
        for journal in now.values():
            events = map(json.loads, journal.splitlines())
            self.tags |= {event["tag"] for event in events if event["event"] == "started"}

    def check_whole(self, *, failures: bool = False) -> None:
        """One folder of each plan has its trials, each once."""
        trials = defaultdict(list)
        for folder, journal in self._journals.items():
            if ended := self._ended(journal):
                trials[next(plan.name for plan in _PLANS if plan.name in folder)].append(ended)
        if set(trials) != {plan.name for plan in _PLANS}:
            raise FaultFoundError(f"these plans were run: {sorted(trials)}")
        for plan, folders in trials.items():
            if len(folders) > 1:
                raise FaultFoundError(f"{plan} was run in {len(folders)} folders")
            self.check_ended(folders[0], _TRIALS, failures=failures)

    def check_output(self, trial: str, seconds: float) -> None:
        """The toy prints nothing."""

    def _whole(self) -> Iterator[tuple[str, bytes]]:
        """Folder → the whole lines of its journal."""
        for file in sorted((self.case.place / "runs").glob(f"*/{JOURNAL}")):
            text = file.read_bytes()
            yield file.parent.name, text[: text.rfind(b"\n") + 1]
