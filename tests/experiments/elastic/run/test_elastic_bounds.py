"""What a plan may ask of the front and the viewers: told before anything starts, and as they do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.yamlfile import YamlFile
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.plan.schema import ElasticPlan, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run import checks
from ullage.experiments.elastic.run.front import Front
from ullage.experiments.elastic.run.repetition import RunningRepetition, RunSetup, front_settings
from ullage.experiments.elastic.run.viewers import Viewers
from ullage.host import paths
from ullage.host.network.bridge import Network
from ullage.workloads.web.clip import Clip

PLAN = """\
name: bounds
room: 3
environments: {lxc: {provider: lxc}}
"""
ONE = "arrivals: {kind: poisson, rate: 1, viewers: 1}\n"
CROWD = "arrivals: {{kind: flash-crowd, rate: 1, viewers: 1, peak: 2, at: {at}, decay: {decay}}}\n"

EDGES = [
    ("patience", ONE + "patience: 24h\n", ONE + "patience: 86401\n"),
    (
        "patience",
        ONE + "time_scale: 60\npatience: 1440h\n",
        ONE + "time_scale: 60\npatience: 1441h\n",
    ),
    ("lateness_limit", ONE + "lateness_limit: 1000s\n", ONE + "lateness_limit: 1001s\n"),
    ("lateness_limit", ONE + "lateness_limit: 0.000001\n", ONE + "lateness_limit: 0.0000009\n"),
    # Both are sent as fast as may be; the second holds too much before it plays.
    (
        "video.buffer",
        ONE + "video: {sent: 1000000000, buffer: 8784h}\n",
        ONE + "video: {sent: 1000000000, buffer: 8785h}\n",
    ),
    ("video.buffer", ONE + "video: {buffer: 8784h}\n", ONE + "video: {buffer: 8785h}\n"),
    (
        "arrivals.rate",
        ONE.replace("rate: 1", "rate: 1000000") + "time_scale: 100\n",
        ONE.replace("rate: 1", "rate: 1000000") + "time_scale: 101\n",
    ),
    (
        "arrivals.rate",
        ONE.replace("rate: 1", "rate: 0.000001"),
        ONE.replace("rate: 1", "rate: 0.0000009"),
    ),
    (
        "arrivals.lasting",
        ONE.replace("rate: 1, viewers: 1", "rate: 0.01, lasting: 8784h"),
        ONE.replace("rate: 1, viewers: 1", "rate: 0.01, lasting: 8785h"),
    ),
    ("arrivals.at", CROWD.format(at="8784h", decay=1), CROWD.format(at="8785h", decay=1)),
    ("arrivals.decay", CROWD.format(at=1, decay="0.000001"), CROWD.format(at=1, decay="0.0000009")),
    (
        "arrivals.peak",
        CROWD.format(at=1, decay=1).replace("peak: 2", "peak: 1000000") + "time_scale: 100\n",
        CROWD.format(at=1, decay=1).replace("peak: 2", "peak: 1000000") + "time_scale: 101\n",
    ),
]


def of(text: str) -> tuple[ElasticPlan, NodeEnvironment, YamlFile]:
    plan, document = schema.loads(PLAN + text)
    (environment,) = schema.resolve(plan, document)
    return plan, environment, document


def lacks(text: str) -> list[UllageError]:
    """What stands against the plan on any host."""
    plan, environment, document = of(text)
    faults = asyncio.run(checks.lacks(plan, [environment], document))
    kinds = (errors.PLAN_BAD_FIELD, errors.ELASTIC_BAD_TRACE)
    return [error for error in faults if error.kind in kinds]


async def viewers_take(plan: ElasticPlan, environment: NodeEnvironment, folder: Path) -> bool:
    """Does the real program, as a repetition tells it?"""
    clip = Clip(folder / "film", "bytes", "", Scaled(plan).film_bytes, "a test")
    network = cast(Network, SimpleNamespace(subnet="127.0.0.0/8", gateway="127.0.0.1"))
    setting = RunSetup(plan, folder, "t", 1, network, {environment.key: cast(Any, None)}, clip)
    repetition = RunningRepetition(setting, environment, 0, 0)
    repetition.folder.mkdir(parents=True)
    repetition.front = cast(Front, SimpleNamespace(address="127.0.0.1:9"))
    config = repetition._viewers_settings()
    config["limits"] |= {"run_s": 0.05}
    try:
        await Viewers(repetition.folder, paths.new_tag()).run(config)
    except UllageError as error:
        assert error.kind is errors.ELASTIC_VIEWERS_FAILED
        return False
    return True


async def front_takes(plan: ElasticPlan, environment: NodeEnvironment, folder: Path) -> bool:
    """The same of the front."""
    config = front_settings(plan, environment, "127.0.0.1:0", folder / "front.jsonl")
    front = Front(config, folder, paths.new_tag(), restarts=0)
    try:
        await front.start()
    except UllageError as error:
        assert error.kind is errors.ELASTIC_FRONT_NOT_STARTED
        return False
    finally:
        await front.quit()
    return True


def test_a_film_that_is_sent_more_slowly_than_it_plays_is_refused() -> None:
    with pytest.raises(UllageError) as caught:
        of(ONE + "video: {bitrate: 2698000, sent: 2697999}\n")
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert "every picture would stand still" in str(caught.value)


def test_the_viewers_are_told_both_rates_of_a_film(built: None, tmp_path: Path) -> None:
    """Of a clip that came out larger than it was to be, no picture waits for its bytes."""
    for bitrate, sent in ((2_698_000, 2_968_000), (2_968_000, 2_968_000)):
        text = ONE + f"video: {{length: 2s, bitrate: {bitrate}, sent: {sent}}}\n"
        plan, environment, _ = of(text)
        folder = tmp_path / str(bitrate)
        assert asyncio.run(viewers_take(plan, environment, folder))


@pytest.mark.parametrize(("field", "good", "bad"), EDGES, ids=[field for field, *_ in EDGES])
def test_the_plan_is_refused_where_the_programs_would(
    built: None, tmp_path: Path, field: str, good: str, bad: str
) -> None:
    async def both_take(text: str, name: str) -> bool:
        plan, environment, _ = of(text)
        folder = tmp_path / name
        folder.mkdir()
        viewers = await viewers_take(plan, environment, folder)
        return viewers and await front_takes(plan, environment, folder)

    assert lacks(good) == []
    assert asyncio.run(both_take(good, "good"))
    (error,) = lacks(bad)
    assert error.kind is errors.PLAN_BAD_FIELD
    assert f": {field}: found " in error.message and "of real time" in error.message
    assert not asyncio.run(both_take(bad, "bad"))


def test_a_film_has_a_length() -> None:
    """Its bits a second are those of whole bytes: there is no film of an instant."""
    (error,) = lacks(ONE + "video: {length: 1ms}\ntime_scale: 2\n")
    assert "plan.yaml:5: video.length: found 0.0005 s" in error.message
    assert lacks(ONE + "video: {length: 2ms}\ntime_scale: 2\n") == []


def test_a_peak_is_no_valley() -> None:
    with pytest.raises(UllageError) as caught:
        of(CROWD.format(at=1, decay=1).replace("peak: 2", "peak: 0.5"))
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert "peak (0.5) is less than rate (1)" in caught.value.message
    of(CROWD.format(at=1, decay=1).replace("peak: 2", "peak: 1"))


def test_a_trace_ends_before_the_viewers_clock_does(built: None, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    for last, scale, good in (("99999999", 1, True), ("1e8", 1, False), ("2e8", 4, True)):
        file.write_text(f"0\n{last}\n")
        text = f"arrivals: {{kind: trace, file: {file}}}\ntime_scale: {scale}\n"
        plan, environment, _ = of(text)
        kinds = [error.kind for error in lacks(text)]
        assert kinds == ([] if good else [errors.ELASTIC_BAD_TRACE])
        place = tmp_path / f"{last}-{scale}"
        place.mkdir()
        assert asyncio.run(viewers_take(plan, environment, place)) == good


@pytest.mark.parametrize(("patience", "scale"), [("2h", 1), ("10h", 2), ("0.1", 1), ("0", 1)])
def test_the_front_keeps_to_the_plans_patience(patience: str, scale: int) -> None:
    """Its own longest wait is an hour: it would block who is told to wait longer."""
    plan, environment, _ = of(f"{ONE}patience: {patience}\ntime_scale: {scale}\n")
    config = front_settings(plan, environment, "127.0.0.1:0", Path("log"))
    patience_ms = Scaled(plan).patience_s * 1e3
    assert patience_ms <= config["patience_ms_max"] < patience_ms + 1


def test_every_bound_is_of_a_field_of_the_plan() -> None:
    plan, _, document = of(CROWD.format(at=1, decay=1) + "patience: 5s\n")
    for bound in checks._bounds(plan):
        part = plan
        for name in bound.field:
            part = getattr(part, str(name))
        assert bound.holds
    checks.check_bounds(plan, document)
