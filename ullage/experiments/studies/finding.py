"""Which run folders belong to a study: by the name of the plan that they were made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ullage.common.errors import RUN_BAD_FORMAT, RUN_NOT_FOUND, STUDY_OTHER_RUN, UllageError
from ullage.common.regular import read_document, read_regular
from ullage.experiments.studies import clockfile, plantexts
from ullage.experiments.studies.base import Study, StudyPlan
from ullage.runs.reader import RunFolder
from ullage.runs.records import FORMAT, PLAN, RESOLVED

Runs = Mapping[str, Path]
"""Name of a plan → a run of it."""


class _Named(BaseModel):
    """All that is asked of a folder here."""

    name: str


def plan_of(path: Path) -> str:
    """The name of the plan that a folder, elastic or not, is a run of.

    RUN_NOT_FOUND, RUN_BAD_FORMAT.
    """
    if clockfile.is_one(path):
        return clockfile.read(path).name
    file = path / RESOLVED
    if not file.is_file():
        raise UllageError(RUN_NOT_FOUND, path=path)
    try:
        return _Named.model_validate_json(read_document(file)).name
    except (OSError, ValidationError) as error:
        reason = f"{RESOLVED} does not say of which plan it is"
        raise UllageError(RUN_BAD_FORMAT, path=path, format=FORMAT, reason=reason) from error


def named_by_user(study: Study, paths: Sequence[Path]) -> Runs:
    """Runs that the user names: of plans of one form, one of each at most.

    RUN_NOT_FOUND, RUN_BAD_FORMAT; STUDY_OTHER_RUN for all else.
    """
    runs: dict[str, Path] = {}
    allowed = {plan.name for quick in (True, False) for plan in study.plans(quick)}
    for path in paths:
        name = plan_of(path)
        if name not in allowed:
            raise UllageError(
                STUDY_OTHER_RUN,
                path=path,
                found=ascii(name),
                allowed=", ".join(sorted(allowed)) or "no more",
                study=study.name,
            )
        runs[name] = path
        form = next(names for names in _forms(study) if name in names)
        allowed = form - set(runs)
    return runs


def newest(plans: Iterable[StudyPlan], root: Path) -> Runs:
    """The newest run of each plan under `root`; none of a plan that was never run."""
    runs: dict[str, Path] = {}
    for name, path in _runs_of({plan.name for plan in plans}, root):
        runs.setdefault(name, path)
    return runs


def newest_ended(names: Collection[str], root: Path) -> Runs:
    """Of plans of these names, none of them elastic or of the clock: the newest run that ended."""
    runs: dict[str, Path] = {}
    for name, path in _runs_of(names, root):
        with suppress(UllageError):
            if name not in runs and RunFolder.open(path).finished is not None:
                runs[name] = path
    return runs


def begun(
    study: Study,
    plans: Sequence[StudyPlan],
    root: Path,
    choices: plantexts.Choices = plantexts.NO_CHOICES,
) -> Runs:
    """The newest run of each plan, also one that was killed before it said what it is a run of.

    Where it asks clouds, only a run that asks these: another is paid for.
    """
    runs = dict(newest((plan for plan in plans if not plan.cloud), root))
    rooms = newest_ended({plan.room_of for plan in plans if plan.room_of}, root)
    written = {
        plan.name: plantexts.text(study, plan, choices, rooms.get(plan.room_of)) for plan in plans
    }
    for path in sorted(root.iterdir() if root.is_dir() else (), reverse=True):
        with suppress(OSError):
            plan = read_regular(path / PLAN)
            for name in (name for name, text in written.items() if text == plan):
                runs.setdefault(name, path)
    return runs


def latest(study: Study, root: Path) -> Runs:
    """Of the form, quick or full, that was run last; empty when the study was never run."""
    forms = [newest(study.plans(quick), root) for quick in (True, False)]
    return max(forms, key=lambda runs: max((path.name for path in runs.values()), default=""))


def _runs_of(names: Collection[str], root: Path) -> Iterator[tuple[str, Path]]:
    """Each run of one of these plans, newest first."""
    for path in _folders(root):
        try:
            name = plan_of(path)
        except UllageError:
            continue  # `ullage list` says what is wrong with it
        if name in names:
            yield name, path


def _folders(root: Path) -> list[Path]:
    """All run folders under `root`, or itself, elastic or not or of the clock, newest first."""
    if _is_run(root):
        return [root]
    inside = root.iterdir() if root.is_dir() else ()
    return sorted(filter(_is_run, inside), key=lambda path: path.name, reverse=True)


def _is_run(path: Path) -> bool:
    return (path / RESOLVED).is_file() or clockfile.is_one(path)


def _forms(study: Study) -> tuple[set[str], ...]:
    return tuple({plan.name for plan in study.plans(quick)} for quick in (True, False))
