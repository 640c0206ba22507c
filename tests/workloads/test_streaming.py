"""`streaming`: what `ullage-viewers` printed in real runs, and what is no result of it."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.web_samples import bent, printing, sample
from tests.workloads.workload_runs import context_in
from ullage.host import binaries
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.web import clip
from ullage.workloads.web import streaming_report as report
from ullage.workloads.web.streaming import Streaming, StreamingParameters

STREAMING = Streaming()
SEARCH = StreamingParameters(
    chunk=524_288, buffer_s=2.0, step_s=6.0, start=1, cap=64, tries=1, late_limit_s=1.0
)
"""Of `found`: NGINX gave more than three chunks at once to nobody (`limit_conn`)."""
FIXED = StreamingParameters(chunk=1_048_576, buffer_s=1.0, step_s=8.0, viewers=6, late_limit_s=1.0)
"""Of `fixed`: NGINX gave everybody less than the video's rate (`limit_rate`)."""
CAPPED = StreamingParameters(step_s=2.0, start=1, cap=4, tries=1, late_limit_s=1.0)
STARVED = StreamingParameters(step_s=3.0, viewers=12, late_limit_s=1.0)
LATELY = StreamingParameters(step_s=2.0, viewers=4, late_limit_s=1e-6)


def outputs(name: str = "found", status: int = 0, text: str | None = None) -> dict[str, Output]:
    printed = sample("streaming", name)
    printed["client"] = replace(printed["client"], status=status)
    return printed if text is None else printing(printed, "client", text)


def changed(change: Callable[[Any], None], name: str = "found") -> dict[str, Output]:
    result = json.loads(outputs(name)["client"].stdout)
    change(result)
    return outputs(name, text=json.dumps(result))


def refused(printed: dict[str, Output], parameters: StreamingParameters = SEARCH) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        STREAMING.check(parameters, printed)
    return str(caught.value)


def test_a_search_with_its_figure() -> None:
    STREAMING.check(SEARCH, outputs())
    figures = STREAMING.parse(SEARCH, outputs())
    result = json.loads(outputs()["client"].stdout)
    (best,) = (step["run"] for step in result["steps"] if step["viewers"] == 3)
    cpu_s = json.loads(outputs()["server"].stdout.split("\n")[1])["serving_cpu_s"]
    video_s = sum(step["run"]["bytes"] for step in result["steps"]) * 8 / 2_800_000
    assert figures == {
        "viewers": 3.0,
        "rate": best["bytes_per_s"] * 8,
        "server_cpu_per_stream": cpu_s / video_s,
        "server_cpus": cpu_s / video_s * 3,
    }
    facts = STREAMING.facts(SEARCH, outputs())
    assert facts["steps"] == "1 sustained, 2 sustained, 4 not-sustained, 3 sustained"
    assert facts["lost"] == "'server-error' 1" and facts["server"].startswith("nginx/")
    assert facts["clip"] == "bytes" and facts["not_sustained"].startswith("'1 of 4 viewers")


def test_what_is_sent_faster_than_it_plays(tmp_path: Path) -> None:
    """The viewers are told both rates; a stream takes CPU for as long as it is sent."""
    faster = SEARCH.model_copy(update={"sent": 3_500_000})
    (_, client) = STREAMING.tasks(faster, context_in(tmp_path, STREAMING, faster))
    config = json.loads(client.argv[3].partition("=")[2])
    assert (config["video"]["bitrate_bps"], config["video"]["sent_bps"]) == (2_800_000, 3_500_000)
    sending_s = config["video"]["bytes"] * 8 / 3_500_000
    assert sending_s >= SEARCH.ramp_s + SEARCH.step_s + SEARCH.first_s, "all of it in a step"
    plays, sent = (STREAMING.parse(of, outputs()) for of in (SEARCH, faster))
    per_stream = "server_cpu_per_stream"
    assert sent[per_stream] == pytest.approx(1.25 * float(plays[per_stream]))  # type: ignore[arg-type]
    assert "sent" not in SEARCH.model_dump(), "as records from before it have none"
    with pytest.raises(ValidationError, match="would have to wait"):
        StreamingParameters(sent=2_799_999)


def test_a_number_that_was_tried_again() -> None:
    """The second 2 was not sustained, and then it was; 4 was not twice."""
    twice = StreamingParameters.model_validate({**SEARCH.model_dump(), "tries": 2})

    def again(result: Any) -> None:
        step_1, two, four, three = result["steps"]
        bad = json.loads(json.dumps(two))
        bad["verdict"] = {"is": "not-sustained", "because": "a moment"}
        bad["run"]["most_playing"] = 1
        result["search"]["tries"] = 2
        result["steps"] = [step_1, bad, two, four, four, three]

    printed = changed(again)
    STREAMING.check(twice, printed)
    assert STREAMING.parse(twice, printed)["viewers"] == 3
    facts = STREAMING.facts(twice, printed)
    assert facts["steps"].startswith(
        "1 sustained, 2 not-sustained, 2 sustained, 4 not-sustained, 4"
    )

    def only_once(result: Any) -> None:
        again(result)
        del result["steps"][4]

    assert "a step has 3 viewers, expected 4" in refused(changed(only_once), twice)


def test_the_longest_search_that_a_plan_may_ask_for() -> None:
    """From 1 to a million, halved down to one viewer, and every number only at the tenth try."""
    tries, cap, limit = 10, 1_000_000, 524_289
    own = {"start": 1, "cap": cap, "resolution": 0.0, "tries": tries}
    longest = StreamingParameters.model_validate({**SEARCH.model_dump(), **own})

    def step(of: Any, viewers: int, sustained: bool) -> Any:
        copy = json.loads(json.dumps(of))
        run, length = copy["run"], longest.request.video_bytes
        run["due"] = run["outcomes"]["cut"] = viewers
        run["most_playing"] = viewers if sustained else 0
        run["bytes"] = viewers * length
        run["bytes_per_s"] = run["bytes"] / run["seconds"]
        because = "" if sustained else "x" * 200
        kind = "sustained" if sustained else "not-sustained"
        return copy | {"viewers": viewers, "verdict": {"is": kind, "because": because}}

    def search(result: Any) -> None:
        first = result["steps"][0]
        lower, upper = 0, None
        result["steps"] = steps = []
        due: int | None = 1
        while due is not None:
            bad = step(first, due, False)
            steps += [bad] * (tries - 1) + [step(first, due, True) if due <= limit else bad]
            lower, upper = (due, upper) if due <= limit else (lower, due)
            due = report._next(longest.request, lower, upper)
        result["search"] |= own
        result |= {"figure": lower, "lower": lower, "upper": upper}

    printed = changed(search)
    reported = json.loads(printed["client"].stdout)
    assert len(reported["steps"]) == report.MOST_STEPS
    # A real run says more than ours reads.
    assert len(printed["client"].stdout) * 4 / 3 < report.LONGEST
    STREAMING.check(longest, printed)
    assert STREAMING.parse(longest, printed)["viewers"] == limit


def test_a_number_that_was_given() -> None:
    STREAMING.check(FIXED, outputs("fixed"))
    figures = STREAMING.parse(FIXED, outputs("fixed"))
    result = json.loads(outputs("fixed")["client"].stdout)
    assert figures["viewers"] == 0 and figures["affected"] == 1
    assert figures["violation_max"] == result["violations"]["length_s"]["max"]
    assert set(STREAMING.facts(FIXED, outputs("fixed"))) == {
        "server",
        "clip",
        "limit",
        "viewers_cpu",
    }


def test_every_server_counts() -> None:
    printed = sample("streaming", "found")
    two = {
        "server-0": printed["server"],
        "server-1": printed["server"],
        "client": printed["client"],
    }
    single, both = STREAMING.parse(SEARCH, outputs()), STREAMING.parse(SEARCH, two)
    alone = single["server_cpu_per_stream"]
    assert isinstance(alone, float) and both["server_cpu_per_stream"] == pytest.approx(2 * alone)
    two["server-1"] = replace(printed["server"], status=1)
    assert "server-1 ended with status 1" in refused(two)
    assert "no output of server" in refused({"client": printed["client"]})


def test_the_cap_is_no_figure() -> None:
    assert "the plan's cap of 4 viewers" in refused(outputs("capped", 1), CAPPED)


def test_viewers_that_were_late_are_no_figure() -> None:
    why = refused(outputs("late", 1), LATELY)
    assert "the viewers' own machine was the limit" in why and "late with one send" in why


def test_a_search_whose_viewers_were_the_limit_or_that_had_none() -> None:
    def worthless(result: Any) -> None:
        result.update(figure=None, why="x")
        result["steps"][-1]["verdict"] = {"is": "worthless", "because": "95 % of its CPU"}

    def nobody(result: Any) -> None:
        result.update(figure=None, why="x", lower=0)
        result["steps"][-1]["verdict"] = {"is": "not-sustained", "because": "silent"}

    def interrupted(result: Any) -> None:
        result["interrupted"] = True

    assert "at 3 viewers the limit was the viewers' own machine" in refused(changed(worthless))
    assert "not one viewer was sustained: 'silent'" in refused(changed(nobody))
    assert "interrupted" in refused(changed(interrupted))


def test_a_picture_that_began_too_late_to_stand_still() -> None:
    assert "they began so late" in refused(outputs("starved"), STARVED)


def test_a_step_whose_pictures_began_too_late_is_not_sustained() -> None:
    """The first 2 was so, and then it was tried again: that ends no search."""
    twice = StreamingParameters.model_validate({**SEARCH.model_dump(), "tries": 2})
    verdict = {"is": "not-sustained", "because": "2 viewers had 50 % of the bytes"}

    def starved(result: Any) -> None:
        step_1, two, four, three = result["steps"]
        late = json.loads(json.dumps(two))
        late["verdict"] = verdict
        late["run"]["bytes"] = two["run"]["bytes"] // 2
        late["run"]["bytes_per_s"] = late["run"]["bytes"] / late["run"]["seconds"]
        result["search"]["tries"] = 2
        result["steps"] = [step_1, late, two, four, four, three]

    def called_sustained(result: Any) -> None:
        starved(result)
        result["steps"][1]["verdict"] = {"is": "sustained"}

    printed = changed(starved)
    STREAMING.check(twice, printed)
    assert STREAMING.parse(twice, printed)["viewers"] == 3
    steps = STREAMING.facts(twice, printed)["steps"]
    assert steps.startswith("1 sustained, 2 not-sustained, 2 sustained, 4 not-sustained")
    assert "is not sustained" in refused(changed(called_sustained), twice)


@pytest.mark.parametrize(
    "fields",
    [
        {"start": 2},
        {"cap": 65},
        {"step_s": 7.0},
        {"ramp_s": 2.0},
        {"resolution": 0.1},
        {"tries": 2},
    ],
)
def test_another_search_is_not_what_was_asked(fields: dict[str, Any]) -> None:
    requested = StreamingParameters.model_validate({**SEARCH.model_dump(), **fields})
    assert "asked for" in refused(outputs(), requested)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("figure", 4, "its steps lead to 3"),
        ("upper", 5, "its steps lead to 3"),
        ("steps.1.viewers", 3, "expected 2"),
        ("steps.1.verdict.is", "not-sustained", "is not not-sustained"),
        ("steps.1.verdict.is", "worthless", "beside a step"),
        ("steps.1.run.valid", False, "is not sustained"),
        ("steps.1.run.violations.count", 1, "1 violations of 0 viewers"),
        ("steps.1.run.violations.viewers", 1, "1 had 0"),
        ("steps.1.run.outcomes.cut", 1, "1 ended"),
        ("steps.1.run.most_playing", 3, "3 played"),
        ("steps.1.run.bytes", 1 << 40, "videos have"),
        ("steps.1.run.bytes", 1, "are not"),
        ("steps.1.run.seconds", 7.5, "are not"),
        ("steps.1.run.whys", {"a": -1}, "whys"),
        ("mode", "run", "mode"),
    ],
)
def test_what_does_not_fit_together(path: str, value: Any, why: str) -> None:
    def change(result: Any) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            result = result[int(parent) if parent.isdigit() else parent]
        result[last] = value

    assert why in refused(changed(change))


def test_a_search_that_stops_early() -> None:
    assert "before it is at its end" in refused(changed(lambda result: result["steps"].pop()))


def test_no_video_or_other_viewers() -> None:
    assert "5 viewers were asked for" in refused(
        outputs("fixed"), FIXED.model_copy(update={"viewers": 5})
    )
    none = changed(lambda result: result.update(bytes=0, bytes_per_s=0.0), "fixed")
    assert "not a byte" in refused(none, FIXED)
    assert "status 2" in refused(outputs(status=2, text=""))
    assert "status 1" in refused(outputs(status=1, text="error: x"))


@settings(max_examples=250, deadline=None)
@given(
    text=bent(outputs()["client"].stdout) | bent(outputs("fixed")["client"].stdout) | st.text(),
    parameters=st.sampled_from([SEARCH, FIXED]),
    status=st.integers(0, 2),
)
def test_whatever_they_print_is_invalid_or_gives_figures(
    text: str, parameters: StreamingParameters, status: int
) -> None:
    printed = outputs(status=status, text=text)
    try:
        STREAMING.check(parameters, printed)
    except InvalidTrialError as error:
        assert str(error).isprintable()
        return
    figures = STREAMING.parse(parameters, printed)
    assert {"viewers", "rate"} <= set(figures)
    assert all(isinstance(y, float) and 0 <= y < 1e18 for y in figures.values())
    assert all(fact.isprintable() for fact in STREAMING.facts(parameters, printed).values())


def test_plans_that_cannot_be_are_refused() -> None:
    for fields, why in (
        ({"start": 9, "cap": 8}, "cap only 8"),
        ({"buffer_s": 10.0, "step_s": 10.0}, "step_s must be longer"),
    ):
        with pytest.raises(ValidationError, match=why):
            StreamingParameters.model_validate(fields)


@pytest.mark.parametrize("viewers", [None, 7])
def test_the_viewers_take_what_they_are_told(viewers: int | None, tmp_path: Path) -> None:
    """Every word of it: they refuse what they do not know, and nobody serves here."""
    parameters = StreamingParameters(viewers=viewers, start=1, cap=2, step_s=2, ramp_s=0.1)
    context = Context({"server-0": "127.0.0.1", "server-1": "127.0.0.2", "client": "x"}, 1, 1, 1)
    *_, task = STREAMING.tasks(parameters, context)
    argv = task.argv[-4:]
    name, _, text = task.argv[3].partition("=")
    nodes = [f"http://127.0.0.{n}:8080/film.mp4" for n in (1, 2)]
    assert name == argv[-1] and json.loads(text)["nodes"] == nodes
    report = json.loads(text) | {"nodes": ["http://127.0.0.1:1/film.mp4"]}
    (tmp_path / name).write_text(json.dumps(report))
    argv = (str(binaries.program("ullage-viewers")), *argv[1:-1], str(tmp_path / name))
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode in (0, 1) and json.loads(done.stdout)["mode"] == argv[1]


def test_the_servers_get_the_film_and_room_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    parameters = StreamingParameters(cap=5000, step_s=2, bitrate=100_000, chunk=10_000)
    film = STREAMING.files(parameters)["film.mp4"]
    assert film.stat().st_size > parameters.request.video_bytes
    context = context_in(tmp_path, STREAMING, parameters)
    place, link = STREAMING.prepare(parameters, context)
    assert any("worker_connections 5064;" in word for word in place.argv)
    assert link.argv == ("ln", "-f", "film.mp4", "www/film.mp4")
    server, client = STREAMING.tasks(parameters, context)
    assert server.service and "nginx" in server.argv and not client.service
    in_each = parameters.model_copy(update={"servers": "each"})
    assert [role.place for role in STREAMING.roles(in_each)] == ["each", "host"]


def test_the_film_can_be_had_inside_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    parameters = StreamingParameters(step_s=2, bitrate=100_000, chunk=10_000)

    async def both() -> tuple[Path, Path]:
        film = STREAMING.files(parameters)["film.mp4"]
        length_s = 1.1 * parameters.length_s + 2
        return film, (await clip.make(length_s, 1e5, "bytes", lambda _: None)).file

    film, again = asyncio.run(both())
    assert film == again
