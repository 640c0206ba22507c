"""`again: true`: the baseline twice, and what that is for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import Summary, summarise
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.report import answer, tables
from ullage.experiments.elastic.report.show import AnalysedRun, find
from ullage.runs.records import RESOLVED

PLAN = """\
name: film
baseline: lxc
again: true
room: 4
environments:
  lxc: {provider: lxc, boot_delay: 5s}
  late: {provider: lxc, boot_delay: 40s}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
"""
TWICE = {
    "lxc": SyntheticEnvironment(tar_s=0.4),
    "late": SyntheticEnvironment(tar_s=2.0),
    "lxc~again": SyntheticEnvironment(tar_s=0.41, again_of="lxc"),
}


def make_twice(tmp_path: Path, copy: SyntheticEnvironment, number: int = 8) -> Path:
    environments = TWICE | {"lxc~again": copy}
    return make(tmp_path, SyntheticRun(environments=environments, repetitions=number, viewers=30))


def summary(path: Path) -> Summary:
    run = ElasticRun.open(path)
    return summarise(run, sides(run))


def test_the_copy_is_the_baseline_under_another_name() -> None:
    plan, document = schema.loads(PLAN)
    lxc, late, again = schema.resolve(plan, document)
    assert (again.key, again.again_of) == ("lxc~again", "lxc")
    assert (again.boot_delay, again.policy, again.resources) == (
        lxc.boot_delay,
        lxc.policy,
        lxc.resources,
    )
    assert (lxc.again_of, late.again_of) == (None, None)
    assert again.provider is not lxc.provider


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline: lxc\n", "", "found true, and no `baseline`"),
        ("  late:", "  lxc-again:", "found true, and lxc-again"),
    ],
)
def test_without_a_baseline_or_a_folder_there_is_no_copy(old: str, new: str, message: str) -> None:
    with pytest.raises(UllageError, match=message) as caught:
        schema.loads(PLAN.replace(old, new))
    assert caught.value.kind is errors.PLAN_BAD_FIELD


def test_it_is_never_judged_and_changes_no_verdict(tmp_path: Path) -> None:
    summed = summary(make_twice(tmp_path, TWICE["lxc~again"]))
    copies = [c for c in summed.contrasts if c.again]
    assert {c.environment for c in copies} == {"lxc~again"}
    assert not any(c.primary or c.verdict or c.why or c.more for c in copies)
    assert any(c.low is not None for c in copies)
    two = {key: TWICE[key] for key in ("lxc", "late")}
    path = make(tmp_path, SyntheticRun(environments=two, viewers=30, name="alone"))
    alone = summary(path)
    assert alone.contrasts == tuple(c for c in summed.contrasts if not c.again)


def test_its_difference_is_shown_as_the_noise_floor(tmp_path: Path) -> None:
    path = make_twice(tmp_path, TWICE["lxc~again"])
    summed = summary(path)
    (last,) = [s for s in answer.answer(summed) if "noise floor" in s]
    assert last.startswith("lxc against itself, 8 pairs of repetitions: ")
    assert "allocation of a node (" in last
    assert not any("lxc~again against" in s for s in answer.compared(summed.contrasts))
    captions = [table.caption for table in tables.contrasts(summed.contrasts)]
    assert captions == [
        "late against lxc",
        "lxc~again against lxc: the noise floor, which chance alone makes",
    ]


def test_in_another_run_only_the_baseline_itself_has_a_partner(tmp_path: Path) -> None:
    path = make_twice(tmp_path, TWICE["lxc~again"])
    other = make(tmp_path, SyntheticRun(environments=TWICE, name="other", viewers=30))
    analysed = find(path, tmp_path, other)
    assert analysed.against is not None
    assert {c.environment for c in analysed.against.contrasts} == {"lxc", "late"}
    assert not any("again" in note for note in analysed.against.notes)


def doubts(analysed: AnalysedRun) -> dict[str, str]:
    return {doubt.code: doubt.message for doubt in analysed.doubts}


def test_a_baseline_that_differs_from_itself_is_doubted(tmp_path: Path) -> None:
    path = make_twice(tmp_path, SyntheticEnvironment(tar_s=1.0, again_of="lxc"))
    message = doubts(find(path, tmp_path))["again-differs"]
    assert "allocation of a node (" in message
    same = make(
        tmp_path,
        SyntheticRun(
            environments=TWICE | {"lxc~again": SyntheticEnvironment(tar_s=0.4, again_of="lxc")},
            name="same",
        ),
    )
    assert "again-differs" not in doubts(find(same, tmp_path))


def test_a_copy_of_something_else_is_refused(tmp_path: Path) -> None:
    path = make_twice(tmp_path, TWICE["lxc~again"], number=1)
    file = path / RESOLVED
    resolved = json.loads(file.read_text())
    resolved["environments"][2]["again_of"] = "late"
    file.write_text(json.dumps(resolved))
    with pytest.raises(UllageError, match="second copy") as caught:
        ElasticRun.open(path)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
