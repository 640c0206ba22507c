"""What changed along with a figure that is worse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.causes import causes as causewords
from ullage.analysis.causes.counters import COUNTERS, NEIGHBOUR, OF_A_CPU
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Analysis, Cause, Causes, Comparison
from ullage.analysis.details import details
from ullage.meters import METERS
from ullage.plan import neighbours
from ullage.report import doubts, page
from ullage.runs.reader import RunFolder

CPU, NET = WORKLOADS[0], WORKLOADS[3]
NATIVE, VM = ENVIRONMENTS[0], ENVIRONMENTS[-1]
Rates = Callable[[str, str, np.random.Generator], dict[str, float]]
"""Environment and workload → what the meter `kernel` saw in one trial."""


def _run(path: Path, rates: Rates | None, **more: Any) -> Analysis:
    """A run whose VM is worse, with counters as they are told."""
    options = {"workloads": (CPU,), "noise_sd": 0.05, "failures": [], "raw": False, **more}
    make_run(path, **options)
    rng = np.random.default_rng(11)
    journal = path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["event"] == "trial":
            noise = np.exp(0.1 * rng.standard_normal())
            usage = {"minor_faults": int(1000 * noise), "voluntary_switches": 0}
            for role in event["roles"]:
                role["usage"] |= {"user_s": 0.9 * noise, **usage}
            if rates is not None:
                event["meters"]["kernel"] = rates(event["environment"], event["workload"], rng)
            else:
                event["meters"] = {}
                for role in event["roles"]:
                    role["usage"] = None
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return overhead.analyse(RunFolder.open(path))


def _noisy(rng: np.random.Generator, mean: float, sd: float = 0.1) -> float:
    return float(mean * np.exp(sd * rng.standard_normal()))


def _of(analysis: Analysis, environment: str = "vm") -> Comparison:
    return next(c for c in analysis.primary() if c.environment == environment)


def _names(causes: Iterable[Cause]) -> list[str]:
    return [cause.counter.partition(".")[2] for cause in causes]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Analysis]:
    """Four counters changed in the VM, which is 6.9 times worse; others follow work or time."""

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        vm = environment == "vm"
        return {
            "interrupts": _noisy(rng, 12_000 if vm else 1_000),
            "context_switches": _noisy(rng, 40_000 if vm else 1_000),
            "page_faults": _noisy(rng, 300 if vm else 3_000_000),
            "psi_io_full": abs(_noisy(rng, 0.11 if vm else 0.001)),
            "softirqs_timer": _noisy(rng, 1_000),  # by the clock
            "net_packets": _noisy(rng, 69_000 / 6.9 if vm else 69_000, 0.05),  # by the work
            "swapped_in": 0.0,
            "cpu_kernel": _noisy(rng, 0.1),
        }

    path = tmp_path_factory.mktemp("causes") / "run"
    analysis = _run(path, rates)
    return RunFolder.open(path), analysis


def test_the_three_that_changed_most_are_named(planted: tuple[RunFolder, Analysis]) -> None:
    causes = _of(planted[1]).causes
    assert causes is not None
    assert causes.differing == 4
    # Of page faults there are a ten-thousandth by time, and a 1,450th by work.
    assert _names(causes.found) == ["page_faults", "context_switches", "interrupts"]
    assert causes.confidence == 0.95
    interrupts = causes.found[2]
    assert interrupts.ratio.low < 12 < interrupts.ratio.high
    assert interrupts.ratio.confidence == pytest.approx(1 - 0.05 / causes.looked)
    assert interrupts.environment_mean == pytest.approx(12_000, rel=0.1)
    assert not interrupts.from_nothing
    assert interrupts.difference_low < interrupts.difference < interrupts.difference_high


def test_what_went_with_the_work_or_the_clock_is_no_news(
    planted: tuple[RunFolder, Analysis],
) -> None:
    """And neither is what did not change, or never was."""
    causes = _of(planted[1]).causes
    assert causes is not None
    assert causes.looked > causes.differing
    for name in ("softirqs_timer", "net_packets", "swapped_in", "cpu_kernel"):
        assert name not in _names(causes.found)


def test_what_went_with_the_work_and_the_clock_is_no_news(tmp_path: Path) -> None:
    """Half of them a timer's, half of them requests': fewer by the second, more by the work."""

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        vm = environment == "vm"
        return {
            "interrupts": _noisy(rng, 500 + 500 / 6.9 if vm else 1_000, 0.02),
            "context_switches": _noisy(rng, 40_000 if vm else 1_000),
        }

    causes = _of(_run(tmp_path / "run", rates)).causes
    assert causes is not None
    assert _names(causes.found) == ["context_switches"]


def test_only_what_is_worse_has_causes(planted: tuple[RunFolder, Analysis]) -> None:
    for c in (*planted[1].comparisons, *planted[1].again):
        assert (c.causes is not None) == (c.verdict == "worse")


def test_details_and_report_say_it_in_plain_words(planted: tuple[RunFolder, Analysis]) -> None:
    folder, analysis = planted
    (text,) = [
        dict(d.facts)["what changed with it"]
        for d in details(analysis)
        if d.comparison.causes is not None
    ]
    assert "interrupts of the host: 1" in text
    assert " a second against " in text
    assert "Of 19 counters looked at 4 changed; all intervals hold together at 95 %." in text
    assert text.endswith("What changes along is a lead, not a proof.")
    html = page.render(folder, analysis)
    assert "What changed with what is worse" in html
    assert "kernel.context_switches" in html
    assert Analysis.model_validate_json(analysis.model_dump_json()) == analysis


def test_a_worse_without_a_counter_says_so(tmp_path: Path) -> None:
    analysis = _run(tmp_path / "run", lambda *_: {"interrupts": 100.0}, blocks=8)
    causes = _of(analysis).causes
    assert causes is not None
    assert (causes.differing, causes.found) == (0, ())
    text = causewords.described(causes)
    assert text.startswith(f"none of the {causes.looked} counters looked at changed for sure")
    table = doubts.table(analysis)
    assert table is not None
    assert len(table.rows) == 1
    assert table.rows[0][1].text == text


def test_trials_without_counters_say_so(tmp_path: Path) -> None:
    causes = _of(_run(tmp_path / "run", None, blocks=8)).causes
    assert causes is not None
    assert causes.looked == 0
    assert causewords.described(causes) == "no counter was seen in enough of these trials"


def test_nothing_worse_no_section(tmp_path: Path) -> None:
    analysis = _run(tmp_path / "run", lambda *_: {}, truth={}, blocks=6)
    assert doubts.table(analysis) is None
    assert "What changed with what is worse" not in page.render(
        RunFolder.open(tmp_path / "run"), analysis
    )


def test_a_duet_has_no_counters_of_one_half_of_the_host(tmp_path: Path) -> None:
    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        return {"interrupts": _noisy(rng, 50_000 if environment == "vm" else 1_000)}

    causes = _of(_run(tmp_path / "run", rates, design="duet")).causes
    assert causes is not None
    assert causes.looked == 6  # what the programs themselves used
    assert causes.found == ()


def test_counters_that_some_trials_lack_are_paired_where_they_are(tmp_path: Path) -> None:
    """A few trials without it do no harm; negative ones, which cannot be, are left out."""

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        if rng.random() < 0.2:
            return {"interrupts": -5.0} if rng.random() < 0.5 else {}
        return {"interrupts": _noisy(rng, 90_000 if environment == "vm" else 1_000)}

    causes = _of(_run(tmp_path / "run", rates, blocks=20)).causes
    assert causes is not None
    assert _names(causes.found) == ["interrupts"]


def test_what_is_told_is_no_less_than_the_floor(tmp_path: Path) -> None:
    """Four more context switches a second are for sure and of no account."""

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        vm = environment == "vm"
        return {
            "context_switches": _noisy(rng, 8 if vm else 4, 0.02),
            "psi_io_full": _noisy(rng, 0.3, 0.02) if vm else 0.0,
        }

    causes = _of(_run(tmp_path / "run", rates)).causes
    assert causes is not None
    assert _names(causes.found) == ["psi_io_full"]
    assert causes.found[0].from_nothing
    assert causes.found[0].difference_low > 0.2


@pytest.mark.parametrize("role", ["neighbour-00-0", "main-1"])
def test_neither_neighbours_nor_more_teams_are_more_work(tmp_path: Path, role: str) -> None:
    """Beside every trial of the VM works another program, of a neighbour or of another instance."""
    path = tmp_path / "run"
    _run(path, lambda *_: {})
    lines = (path / "journal.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        if event["event"] == "trial" and event["environment"] == "vm":
            event["roles"].append({**event["roles"][0], "role": role, "instance": "vm-1"})
            if role == "main-1":
                event["instances"] = {"vm-0": event["metrics"], "vm-1": event["metrics"]}
    (path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    causes = _of(overhead.analyse(RunFolder.open(path))).causes
    assert causes is not None
    assert causes.found == ()


def test_the_name_of_a_neighbours_role_is_that_of_the_engine() -> None:
    assert f"{neighbours.ROLE}-" == NEIGHBOUR


def test_makings_are_what_counts(tmp_path: Path) -> None:
    """Two makings of many blocks each are two values: too few to look at."""

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        return {"interrupts": _noisy(rng, 50_000 if environment == "vm" else 1_000)}

    many = _of(_run(tmp_path / "many", rates, blocks=24, blocks_each=3)).causes
    assert many is not None
    assert {cause.ratio.n for cause in many.found} == {8}
    assert _names(many.found) == ["interrupts"]


def test_where_nothing_changed_few_comparisons_name_a_counter(tmp_path: Path) -> None:
    """At most one in twenty may; skewed counters and small ones among them."""
    works = [CPU.model_copy(update={"key": f"work-{n}"}) for n in range(110)]
    truth = {("vm", work.key): 2.0 for work in works}

    def rates(environment: str, _: str, rng: np.random.Generator) -> dict[str, float]:
        names = [c.name.partition(".")[2] for c in COUNTERS if c.name.startswith("kernel.")]
        mean = {"psi_io_full": 0.01, "swapped_in": 0.2, "cpu_kernel": 0.1}
        return {n: _noisy(rng, mean.get(n, 2000), 0.1 + 0.02 * len(n)) for n in names}

    analysis = _run(
        tmp_path / "run",
        rates,
        environments=(NATIVE, VM),
        workloads=works,
        truth=truth,
        blocks=8,
        finished=False,
    )
    all_causes = [c.causes for c in analysis.primary() if c.causes is not None]
    assert len(all_causes) > 90
    assert sum(causes.differing > 0 for causes in all_causes) / len(all_causes) <= 0.05


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "waiting: 20 % against 10 %, 2.0 times (1.8 to 2.2)"),
        (
            {"from_nothing": True, "baseline_mean": 0.0},
            "waiting: 20 % against 0 %, 10 % more (5 % to 15 %)",
        ),
        (
            {
                "from_nothing": True,
                "difference": -0.1,
                "difference_low": -0.21,
                "difference_high": 0.01,
            },
            "waiting: 20 % against 10 %, 10 % less (−1 % to 21 %)",
        ),
        ({"unit": "1/s", "environment_mean": 12_300.0}, "12,300 a second against 0.1 a second"),
        ({"unit": "B/s", "environment_mean": 4.2e6}, "4.2 MB/s against"),
        ({"unit": "", "environment_mean": 0.98}, "0.98 against 0.1"),
    ],
)
def test_words(changes: dict[str, Any], says: str) -> None:
    ratio = Interval(estimate=2, low=1.8, high=2.2, confidence=0.99, n=8, method="")
    cause = Cause(
        counter="host.psi_io",
        words="waiting",
        unit="1",
        environment_mean=0.2,
        baseline_mean=0.1,
        ratio=ratio,
        difference=0.1,
        difference_low=0.05,
        difference_high=0.15,
        from_nothing=False,
    )
    assert says in causewords.cause_words(cause.model_copy(update=changes))


def test_one_that_changed_is_told_in_the_singular() -> None:
    causes = Causes(looked=9, differing=1, found=(), confidence=0.95)
    assert causewords.counted(causes).startswith("Of 9 counters looked at 1 changed;")


def test_counters_are_those_that_meters_have() -> None:
    units = {f"{m.name}.{q.name}": q.unit for m in METERS for q in m.quantities}
    for counter in COUNTERS:
        if counter.of_host:
            names = [counter.name]
            if counter.name == "threads.programs+vcpu":
                names = ["threads.programs", "threads.vcpu"]
            elif counter.name.startswith("guest."):  # and its counterpart on the host
                names.append(counter.name.replace("guest.", "kernel."))
                names = [name for name in names if name != "kernel.steal"]
            expected = {"Hz": {"1/s", "Hz"}, OF_A_CPU: {"1"}, "": {"1"}}
            for name in names:
                assert units[name] in expected.get(counter.unit, {counter.unit}), name
        assert math.isfinite(counter.floor)
        assert counter.floor > 0
    assert len({counter.name for counter in COUNTERS}) == len(COUNTERS)
