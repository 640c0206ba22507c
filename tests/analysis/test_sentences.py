from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, SCRIPT, WORKLOADS, make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.model import Analysis, Comparison, Interval
from ullage.folder import RunFolder

CPU = WORKLOADS[0]
NATIVE, AGAIN, CONTAINER, LXC, VM = ENVIRONMENTS


def _analysis(path: Path, **more: Any) -> Analysis:
    return overhead.analyse(RunFolder.open(make_run(path / "run", raw=False, **more)))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Little noise: everything is decided."""
    return _analysis(tmp_path_factory.mktemp("calm"), noise_sd=0.01)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Noise as on a shared machine, twelve blocks."""
    return _analysis(tmp_path_factory.mktemp("noisy"))


@pytest.fixture(scope="module")
def one(calm: Analysis) -> Comparison:
    """A comparison to alter."""
    return next(c for c in calm.comparisons if c.primary and c.environment == "container")


def _with(c: Comparison, low: float, high: float, **more: Any) -> Comparison:
    estimate = (low * high) ** 0.5
    interval = Interval(estimate=estimate, low=low, high=high, confidence=0.95, n=12, method="t")
    return c.model_copy(update={"interval": interval, "ratio": estimate, **more})


def test_decided_environments_in_one_sentence_each(calm: Analysis) -> None:
    container, lxc, vm, floor = sentences.answer(calm)
    assert re.fullmatch(
        r"On this machine container \(crun\) costs nothing measurable in CPU, memory and disk "
        r"\(equivalent within 2 %\) and 1\d\.\d % in network \(1\d\.\d to 1\d\.\d %\)\.",
        container,
    )
    assert "nothing measurable in CPU and memory (equivalent within 2 %)" in lxc
    assert vm.startswith("On this machine qemu-tcg (emulated) costs 6.8")
    assert vm.count("×") == 8
    assert re.fullmatch(
        r"Native against itself may differ by \S+ % in CPU, \S+ % in memory, \S+ % in disk and "
        r"\S+ % in network in this run: nothing below that is called a difference\.",
        floor,
    )


def test_what_is_open_says_what_would_settle_it(noisy: Analysis) -> None:
    container = sentences.answer(noisy)[0]
    assert container.startswith("Nothing is decided yet for container (crun): CPU −")
    assert container.endswith(" more blocks).")
    assert container.count("more block") == 4


def test_one_open_figure_among_decided_ones(calm: Analysis) -> None:
    def undecide(c: Comparison) -> Comparison:
        if (c.environment, c.resource, c.primary) != ("container", "disk", True):
            return c
        more = {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 18}
        return _with(c, 0.97, 1.19, **more)

    resources = tuple(
        r.model_copy(update={"verdict": "inconclusive"}) if r.resource == "disk" else r
        for r in calm.resources
    )
    changed = calm.model_copy(
        update={"comparisons": tuple(map(undecide, calm.comparisons)), "resources": resources}
    )
    assert sentences.answer(changed)[0].endswith(
        "; disk is undecided (−3 to 19 %): about 18 more blocks would settle it."
    )


def test_strong_marks_are_asked_for(calm: Analysis) -> None:
    assert "**" not in "".join(sentences.answer(calm))
    marked = sentences.answer(calm, strong=True)
    assert "**nothing measurable in CPU, memory and disk**" in marked[0]
    assert [s.replace("**", "") for s in marked] == sentences.answer(calm)


@pytest.mark.parametrize(
    ("low", "high", "more", "text"),
    [
        (
            1.08,
            1.17,
            {"verdict": "worse"},
            "is 12 % worse in CPU, 1 thread (95 % interval 8 to 17 %",
        ),
        (1.27, 1.36, {"verdict": "worse"}, "is 31 % worse"),
        (
            2.27,
            2.36,
            {"verdict": "worse"},
            "is 2.31× worse in CPU, 1 thread (95 % interval 2.27 to 2.36×",
        ),
        (
            0.75,
            0.86,
            {"verdict": "better"},
            "is 25 % better in CPU, 1 thread (95 % interval 16 to 34 %",
        ),
        (
            0.99,
            1.01,
            {"verdict": "equivalent"},
            "is equivalent in CPU, 1 thread (95 % interval −1.0 to 1.0 %",
        ),
        (
            0.97,
            1.19,
            {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 18},
            "CPU, 1 thread is undecided (−3 to 19 %): about 18 more blocks would settle it",
        ),
        (
            0.97,
            1.19,
            {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 1},
            "about 1 more block would settle it",
        ),
        (
            1.01,
            1.05,
            {
                "verdict": "inconclusive",
                "why": "below-floor",
                "floor": 1.0612,
                "blocks_to_settle": None,
            },
            "(1 to 5 %), below the noise floor of 6.2 %: no practical number of blocks would",
        ),
        (
            0.99,
            1.01,
            {"verdict": "inconclusive", "why": "floor-biased", "blocks_to_settle": None},
            "two equal environments differ by more than the margin",
        ),
        (
            0.9,
            1.2,
            {"verdict": "inconclusive", "why": "too-few-blocks", "blocks_to_settle": 2, "pairs": 4},
            "4 blocks are too few, at least 2 more",
        ),
        (
            0.9,
            1.2,
            {"verdict": "inconclusive", "why": "too-few-blocks", "blocks_to_settle": 5, "pairs": 1},
            "1 block is too few, at least 5 more",
        ),
        (
            0.9,
            1.2,
            {"verdict": None, "no_verdict": "too many failures: 3 of 14 in x"},
            "has no verdict: too many failures: 3 of 14 in x",
        ),
    ],
)
def test_every_verdict_has_its_words(
    one: Comparison, low: float, high: float, more: dict[str, Any], text: str
) -> None:
    said = sentences.comparison_sentence(_with(one, low, high, **more))
    assert text in said
    assert "container (crun)" in said
    assert said.endswith(".")


def test_no_sentence_says_better_or_worse_without_the_verdict(noisy: Analysis) -> None:
    for c in noisy.comparisons:
        said = sentences.comparison_sentence(c).replace("above 1 is worse", "")
        assert ("worse" in said) is (c.verdict == "worse")
        assert ("better" in said) is (c.verdict == "better")


def test_a_secondary_metric_is_told_without_a_verdict(calm: Analysis) -> None:
    c = next(c for c in calm.comparisons if c.metric == "latency_p95" and c.environment == "lxc")
    assert re.match(
        r"With LXC, CPU, 1 thread, latency_p95 has the ratio \d\.\d+, above 1 is worse \(95 % ",
        sentences.comparison_sentence(c),
    )


def test_without_figures(one: Comparison) -> None:
    nothing = one.model_copy(
        update={"interval": None, "ratio": None, "verdict": None, "why": None, "primary": False}
    )
    assert sentences.comparison_sentence(nothing).endswith("has no ratio.")


def test_emulation_is_always_named(calm: Analysis, one: Comparison) -> None:
    plain = one.model_copy(update={"environment_label": "qemu", "emulated": True})
    assert "qemu (emulated)" in sentences.comparison_sentence(plain)
    twice = plain.model_copy(update={"environment_label": "qemu-tcg (emulated)"})
    assert sentences.comparison_sentence(twice).count("emulated") == 1
    for c in calm.comparisons:
        assert ("emulated" in sentences.comparison_sentence(c)) is c.emulated


def test_allowed_inequality_stands_in_every_sentence(tmp_path: Path) -> None:
    small = CONTAINER.model_copy(
        update={"nuisances": {**CONTAINER.nuisances, "memory": "512MiB", "cpus": "2"}}
    )
    analysis = _analysis(tmp_path, environments=[NATIVE, AGAIN, small, LXC], allowed=["memory"])
    words = "container (crun) (with unequal cpus and memory, as the plan allows)"
    said = sentences.answer(analysis)
    assert words in said[0]
    assert "unequal" not in said[1]
    for c in analysis.comparisons:
        expected = c.environment == "container"
        assert (words in sentences.comparison_sentence(c)) is expected


def test_figures_of_one_resource_that_disagree_are_told_apart(tmp_path: Path) -> None:
    two = CPU.model_copy(update={"key": "sysbench-cpu[threads=2]", "title": "CPU, 2 threads"})
    truth = {("lxc", two.key): 1.3, ("vm", CPU.key): 4.0, ("vm", two.key): 9.0}
    analysis = _analysis(tmp_path, workloads=[CPU, two], truth=truth, noise_sd=0.01, failures=[])
    container, lxc, vm, _ = sentences.answer(analysis)
    assert "nothing measurable in CPU (mean of 2 figures)" in container
    assert "nothing measurable in CPU, 1 thread (equivalent within 2 %) and 3" in lxc
    assert "in CPU, 2 threads (" in lxc
    assert re.search(r"costs \d\.\d+× in CPU \(mean of 2 figures\) \(", vm)


def test_a_gain_is_a_gain(tmp_path: Path) -> None:
    truth = {("lxc", CPU.key): 0.8, ("vm", CPU.key): 3.0}
    analysis = _analysis(tmp_path, workloads=WORKLOADS[:2], truth=truth, noise_sd=0.01, failures=[])
    said = sentences.answer(analysis)[1]
    assert re.search(r"nothing measurable in memory .*; it is 2\d\.\d % better in CPU \(", said)


def test_a_floor_that_the_apparatus_failed(calm: Analysis) -> None:
    said = sentences.floor_sentence(calm.model_copy(update={"again_differing": 1}))
    assert said is not None
    assert "1 of 4 such comparisons show a difference where there is none" in said
    assert sentences.floor_sentence(calm.model_copy(update={"again_total": 0})) is None


@pytest.mark.parametrize(
    ("floor", "words"), [(1.0201, "2.1 %"), (1.02, "2.0 %"), (1.114, "12 %"), (2.31, "2.4×")]
)
def test_a_floor_is_rounded_up(floor: float, words: str) -> None:
    assert sentences.floor_words(floor) == words


def test_a_guests_words_are_in_no_sentence(calm: Analysis) -> None:
    said = [*sentences.answer(calm), *map(sentences.comparison_sentence, calm.comparisons)]
    assert SCRIPT not in "".join(said)
    assert "<" not in "".join(said)


def test_curves_have_sentences(tmp_path: Path) -> None:
    analysis = _analysis(tmp_path, workloads=[CURVE_WORKLOAD], noise_sd=0.01, failures=[])
    assert all(s.startswith("On this machine ") for s in sentences.answer(analysis)[:3])


def test_lists() -> None:
    assert sentences.listed(["a"]) == "a"
    assert sentences.listed(["a", "b"]) == "a and b"
    assert sentences.listed(["a", "b", "c"]) == "a, b and c"
