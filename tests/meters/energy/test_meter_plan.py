"""What a plan may say of energy meters, and what it is told when it says something else."""

from __future__ import annotations

import pytest

from tests.meters.energy.scripted import scripted
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.meters import energy
from ullage.plan import matrix, schema
from ullage.plan.matrix import Matrix
from ullage.plan.meters import IDLE_S, idle_s

PLAN = """\
name: metered
baseline: native
image: host
environments:
  native: {provider: native}
workloads:
  - {name: command, argv: ["true"]}
"""


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "ENERGY_METERS", (scripted(),))


def resolved(more: str) -> Matrix:
    return matrix.resolve(*schema.loads(PLAN + more))


def test_a_plan_names_its_meters() -> None:
    text = "meters: {wall: {meter: scripted, every: 500ms, where: there}, cpu: {meter: scripted}}"
    wall, cpu = resolved(text.replace("500ms", "0.5")).meters
    assert (wall.label, wall.options.every, wall.plain_options) == ("wall", 0.5, {"where": "there"})
    assert (cpu.label, cpu.options.every, cpu.optional) == ("cpu", 1.0, False)
    assert wall.make().name == "scripted"


def test_no_meters_no_rest() -> None:
    assert resolved("").meters == ()
    assert idle_s(schema.loads(PLAN)[0]) == 0


@pytest.mark.parametrize(("idle", "seconds"), [("", IDLE_S), ("idle: 1m\n", 60), ("idle: 0\n", 0)])
def test_the_host_rests_where_there_are_meters(idle: str, seconds: float) -> None:
    checked, _ = schema.loads(f"{PLAN}meters: {{wall: {{meter: scripted}}}}\n{idle}")
    assert idle_s(checked) == seconds


@pytest.mark.parametrize(
    ("more", "kind", "line", "words"),
    [
        (
            "meters:\n  wall:\n    meter: Scriptd\n",
            errors.PLAN_UNKNOWN_METER,
            10,
            ("'Scriptd'", "did you mean scripted?"),
        ),
        (
            "meters:\n  wall: {meter: scripted,\n    wher: x}\n",
            errors.PLAN_UNKNOWN_FIELD,
            10,
            ("meters.wall.wher", "every, where, meter, optional", "did you mean where?"),
        ),
        (
            "meters:\n  wall: {meter: scripted,\n    every: soon}\n",
            errors.PLAN_BAD_FIELD,
            10,
            ("meters.wall.every", "'soon'", "a duration such as"),
        ),
        (
            "meters:\n  wall: {meter: scripted, every: 0}\n",
            errors.PLAN_BAD_FIELD,
            9,
            ("meters.wall.every", "greater than 0"),
        ),
        (
            "meters:\n  wall: {meter: scripted, every: 0.009}\n",
            errors.PLAN_BAD_FIELD,
            9,
            ("meters.wall.every", "greater than or equal to 0.01", "10 ms at least"),
        ),
        ("meters:\n  wall: {every: 1s}\n", errors.PLAN_BAD_FIELD, 9, ("meters.wall.meter",)),
        (
            "meters:\n  wall: {meter: scripted,\n    optional: perhaps}\n",
            errors.PLAN_BAD_FIELD,
            10,
            ("meters.wall.optional",),
        ),
        (
            "meters:\n  ../wall: {meter: scripted}\n",
            errors.PLAN_BAD_FIELD,
            9,
            ("'../wall'", "lower-case letters"),
        ),
        ("meters: [rapl]\n", errors.PLAN_BAD_FIELD, 8, ("meters", "dictionary")),
        (
            "idle: 5s\n",
            errors.PLAN_BAD_FIELD,
            8,
            ("idle", "5 s", "names none"),
        ),
        (
            "meters: {wall: {meter: scripted}}\nidle: -1\n",
            errors.PLAN_BAD_FIELD,
            9,
            ("idle", "greater than or equal to 0"),
        ),
    ],
)
def test_a_complaint_names_the_line_and_what_is_allowed(
    more: str, kind: ErrorKind, line: int, words: tuple[str, ...]
) -> None:
    with pytest.raises(UllageError) as caught:
        resolved(more)
    assert caught.value.kind is kind
    complaint = f"{caught.value.message} {caught.value.hint}"
    assert f"plan.yaml:{line}:" in complaint
    assert all(word in complaint for word in words), complaint


def test_every_meter_of_the_list_leaves_the_plans_own_fields_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    for kind in energy.ENERGY_METERS:
        assert not {"meter", "optional"} & set(kind.Options.model_fields)
