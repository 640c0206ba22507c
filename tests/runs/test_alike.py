"""Records that share what they have alike are the same records."""

from __future__ import annotations

from pathlib import Path

from testing.synthetic import make_run
from ullage.runs.events import Event
from ullage.runs.reader import ORDINARY, RunFolder
from ullage.runs.records import JOURNAL


def test_the_records_are_those_that_stand_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blocks=3)
    read = RunFolder.open(run).events
    lines = (run / JOURNAL).read_bytes().splitlines()
    alone: list[Event] = [ORDINARY.event.validate_json(line) for line in lines]
    assert list(read) == alone
    for one, other in zip(read, alone, strict=True):
        assert one.model_fields_set == other.model_fields_set
        assert one.model_dump_json(exclude_unset=True) == other.model_dump_json(exclude_unset=True)


def test_the_names_are_kept_once_and_a_copy_has_its_own(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=3, failures=()))
    first, second = folder.trials[:2]
    assert first.model_fields_set is second.model_fields_set
    roles = [role for trial in folder.trials for role in trial.roles]
    assert len({id(role.model_fields_set) for role in roles}) < len(roles) / 10
    copied = first.model_copy(update={"order": 7})
    assert copied.model_fields_set == first.model_fields_set
    assert copied.model_fields_set is not first.model_fields_set
