from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, SCRIPT, WORKLOADS, make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison import words
from ullage.analysis.comparison.estimates import Budget, Interval
from ullage.analysis.comparison.model import Analysis, Comparison, Doubt, Rejudged
from ullage.runs.reader import RunFolder

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
def compared(calm: Analysis) -> Comparison:
    """A comparison to alter."""
    return next(c for c in calm.comparisons if c.primary and c.environment == "container")


def _interval(low: float, high: float) -> Interval:
    middle = (low * high) ** 0.5
    return Interval(estimate=middle, low=low, high=high, confidence=0.95, n=12, method="t")


def _with(c: Comparison, low: float, high: float, **more: Any) -> Comparison:
    estimate = (low * high) ** 0.5
    interval = Interval(estimate=estimate, low=low, high=high, confidence=0.95, n=12, method="t")
    return c.model_copy(update={"interval": interval, "ratio": estimate, **more})


def test_decided_environments_in_one_sentence_each(calm: Analysis) -> None:
    container, lxc, vm, _, floor = sentences.answer(calm)
    assert re.fullmatch(
        r"On this machine container \(crun\) is 1\.1\d+× worse than native in network "
        r"\(95 % interval 1\.1\d+ to 1\.1\d+, 12 blocks\); "
        r"CPU, memory and disk are equivalent within 2 %\.",
        container,
    )
    assert lxc.endswith("; CPU and memory are equivalent within 2 %.")
    assert vm.startswith("On this machine qemu-tcg (emulated) is 6.8")
    assert vm.count("×") == 4
    assert ", 11 blocks)" in vm, "one trial of its disk failed"
    assert re.fullmatch(
        r"Native against itself may differ by \S+ % in CPU, \S+ % in memory, \S+ % in disk and "
        r"\S+ % in network in this run: what is called a difference differs from both of its "
        r"copies\.",
        floor,
    )


def test_what_is_open_says_what_would_settle_it(noisy: Analysis) -> None:
    container = sentences.answer(noisy)[0]
    lead = "On this machine nothing is decided yet for container (crun) (95 % intervals, 12 blocks)"
    assert container.startswith(f"{lead}: CPU (0.")
    assert container.endswith(" more blocks may be enough).")
    assert len(re.findall(r"more blocks may|no practical number", container)) == 4


def _changed(
    analysis: Analysis, chosen: Callable[[Comparison], bool], change: Callable[..., Comparison]
) -> Analysis:
    """The same with some comparisons altered, and the resources that they are alone in."""
    comparisons = tuple(change(c) if chosen(c) else c for c in analysis.comparisons)
    verdicts = {(c.environment, c.resource): c for c in comparisons if c.primary}
    resources = tuple(
        r.model_copy(update={"verdict": verdicts[r.environment, r.resource].verdict})
        for r in analysis.resources
    )
    return analysis.model_copy(update={"comparisons": comparisons, "resources": resources})


def test_the_sentence_of_the_issue(calm: Analysis) -> None:
    """Worse in memory, equivalent in CPU, undecided in disk: as short as it can be said."""
    intervals: dict[str, tuple[float, float, dict[str, Any]]] = {
        "memory": (1.27, 1.36, {"verdict": "worse", "why": "difference"}),
        "cpu": (0.99, 1.01, {"verdict": "equivalent", "why": "within-margin"}),
        "disk": (
            0.97,
            1.19,
            {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 18},
        ),
        "network": (0.99, 1.01, {"verdict": "equivalent", "why": "within-margin"}),
    }

    def change(c: Comparison) -> Comparison:
        low, high, more = intervals[c.resource]
        return _with(c, low, high, pairs=12, **more)

    changed = _changed(calm, lambda c: c.environment == "vm" and c.primary, change)
    assert sentences.answer(changed)[2] == (
        "On this machine qemu-tcg (emulated) is 1.31× worse than native in memory (95 % interval "
        "1.27 to 1.36, 12 blocks); CPU and network are equivalent within 2 %; disk is inconclusive "
        "(0.97 to 1.19): about 18 more blocks may be enough."
    )


def test_equivalence_alone_says_its_confidence(calm: Analysis) -> None:
    def change(c: Comparison) -> Comparison:
        return _with(c, 0.99, 1.01, verdict="equivalent", why="within-margin")

    changed = _changed(calm, lambda c: c.environment == "container" and c.primary, change)
    assert sentences.answer(changed)[0] == (
        "On this machine container (crun) is equivalent to native within 2 % in CPU, memory, disk "
        "and network (95 % confidence, 12 blocks)."
    )


def test_makings_of_the_instances_are_what_counts(calm: Analysis) -> None:
    nested: dict[str, Any] = {"precision": "intermediate", "generations": 7, "pairs": 28}

    def change(c: Comparison) -> Comparison:
        if c.resource == "cpu":
            return _with(c, 1.27, 1.36, verdict="worse", why="difference", **nested)
        more = {"blocks_to_settle": 12, "makings_to_settle": 3, "why": "interval-too-wide"}
        return _with(c, 0.9, 1.2, verdict="inconclusive", **more, **nested)

    changed = _changed(calm, lambda c: c.environment == "container" and c.primary, change)
    sentence = sentences.answer(changed)[0]
    assert "(95 % interval 1.27 to 1.36, 7 makings of the instances (28 blocks))" in sentence
    assert "disk (0.90 to 1.20: about 3 more makings (12 blocks) may be enough)" in sentence
    few = _with(
        changed.comparisons[0],
        0.9,
        1.2,
        verdict="inconclusive",
        why="too-few-blocks",
        **{**nested, "generations": 4, "blocks_to_settle": 8, "makings_to_settle": 2},
    )
    assert sentences.comparison_sentence(changed, few).endswith(
        ": 4 makings of the instances are too few, at least 2 more makings (8 blocks)."
    )


def test_strong_marks_are_asked_for(calm: Analysis) -> None:
    assert "**" not in "".join(sentences.answer(calm))
    marked = sentences.answer(calm, strong=True)
    assert "× worse than native in network** (95 % " in marked[0]
    assert "**equivalent within 2 %**" in marked[0]
    assert [s.replace("**", "") for s in marked] == sentences.answer(calm)


@pytest.mark.parametrize(
    ("low", "high", "more", "text"),
    [
        (
            1.08,
            1.17,
            {"verdict": "worse"},
            "is 1.12× worse than native in CPU, 1 thread (95 % interval 1.08 to 1.17, 12 blocks)",
        ),
        (
            2.27,
            2.36,
            {"verdict": "worse"},
            "is 2.31× worse than native in CPU, 1 thread (95 % interval 2.27 to 2.36, 12 blocks)",
        ),
        (
            0.75,
            0.86,
            {"verdict": "better"},
            "is 1.25× better than native in CPU, 1 thread (95 % interval 1.16 to 1.34, 12 blocks)",
        ),
        (
            0.99,
            1.01,
            {"verdict": "equivalent"},
            "is equivalent to native within 2 % in CPU, 1 thread (95 % interval 0.990 to 1.010, ",
        ),
        (
            0.97,
            1.19,
            {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 18},
            "CPU, 1 thread is inconclusive (95 % interval 0.97 to 1.19, 12 blocks): "
            "about 18 more blocks may be enough.",
        ),
        (
            0.97,
            1.19,
            {"verdict": "inconclusive", "why": "interval-too-wide", "blocks_to_settle": 1},
            "about 1 more block may be enough.",
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
            "12 blocks, below the noise floor of 6.2 %): no practical number of blocks would",
        ),
        (
            0.99,
            1.01,
            {"verdict": "inconclusive", "why": "floor-biased", "blocks_to_settle": None},
            "two equal environments differ by too much",
        ),
        (
            1.02,
            1.67,
            {"verdict": "inconclusive", "why": "correction", "blocks_to_settle": 31},
            "1.02 to 1.67, 12 blocks): one of several questions, each must be surer; about 31 more "
            "blocks may be enough.",
        ),
        (
            1.02,
            1.1,
            {
                "verdict": "inconclusive",
                "why": "second-copy",
                "other_copy": _interval(0.98, 1.05),
                "blocks_to_settle": 40,
            },
            "against a second copy it is 0.98 to 1.05; about 40 more blocks may be enough.",
        ),
        (
            1.02,
            1.1,
            {
                "verdict": "inconclusive",
                "why": "second-copy",
                "other_copy": _interval(0.98, 1.05),
                "floor_biased": True,
                "blocks_to_settle": 450,
            },
            "native differs from its own second copy, against a second copy it is 0.98 to 1.05.",
        ),
        (
            1.02,
            1.1,
            {"verdict": "inconclusive", "why": "no-copy", "blocks_to_settle": None},
            "the second copy of native gave no figures to hold it against.",
        ),
        (
            0.9,
            0.95,
            {"verdict": "inconclusive", "why": "unseen", "blocks_to_settle": 30},
            "rare slow trials, which so few trials may have missed, could undo it; about 30 more",
        ),
        (
            0.99,
            1.01,
            {"verdict": "inconclusive", "why": "systematic", "blocks_to_settle": None},
            "the instruments are too coarse to tell",
        ),
        (
            0.9,
            1.2,
            {"verdict": "inconclusive", "why": "too-few-blocks", "blocks_to_settle": 2, "pairs": 4},
            "4 blocks are too few, at least 2 more blocks",
        ),
        (
            0.9,
            1.2,
            {"verdict": "inconclusive", "why": "too-few-blocks", "blocks_to_settle": 5, "pairs": 1},
            "1 block is too few, at least 5 more blocks",
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
    calm: Analysis, compared: Comparison, low: float, high: float, more: dict[str, Any], text: str
) -> None:
    sentence = sentences.comparison_sentence(calm, _with(compared, low, high, **more))
    assert text in sentence
    assert "container (crun)" in sentence
    assert sentence.endswith(".")


def _budget(low: float, high: float) -> Budget:
    return Budget(
        type_a=0.01,
        type_b=0.02,
        components=(),
        expanded=0.05,
        low=low,
        high=high,
        precision="repeatability",
    )


def test_what_the_instruments_add_is_said_when_it_can_be_seen(
    calm: Analysis, compared: Comparison
) -> None:
    more = {"verdict": "worse", "budget": _budget(1.05, 1.2)}
    sentence = sentences.comparison_sentence(calm, _with(compared, 1.08, 1.17, **more))
    assert sentence.endswith(
        "(95 % interval 1.08 to 1.17, 12 blocks, 1.05 to 1.20 with the instruments' part)."
    )
    more = {"verdict": "worse", "budget": _budget(1.0803, 1.1697)}
    small = _with(compared, 1.0805, 1.1693, **more)
    assert "instruments" not in sentences.comparison_sentence(calm, small)
    more = {"verdict": "better", "budget": _budget(0.5, 0.8)}
    sentence = sentences.comparison_sentence(calm, _with(compared, 0.55, 0.7, **more))
    assert "1.42 to 1.82, 12 blocks, 1.2 to 2.0 with the instruments' part" in sentence


def test_a_duet_is_named_in_every_sentence(calm: Analysis) -> None:
    duet = calm.model_copy(update={"design": "duet"})
    *environments, _, floor = sentences.answer(duet)
    assert all(s.startswith("On this machine, while both run side by side, ") for s in environments)
    assert floor.startswith("Native against itself, side by side, may differ")
    for c in (*duet.comparisons, *duet.again):
        sentence = sentences.comparison_sentence(duet, c)
        assert sentence.startswith("While both run side by side, ")


def test_serious_doubts_about_verdicts_are_in_the_answer(calm: Analysis) -> None:
    assert sentences.care(calm) == (
        "Read with care, 1 of 12 verdicts may not hold: qemu-tcg (emulated) in random reads, "
        "4 KiB, O_DIRECT (some-failures)."
    )
    whole = _changed(
        calm, lambda c: c.primary, lambda c: c.model_copy(update={"doubts": (), "losses": None})
    )
    assert sentences.care(whole) is None
    doubt = Doubt(code="drift", message="m", advice="a")

    def change(c: Comparison) -> Comparison:
        return c.model_copy(update={"doubts": (doubt,)})

    few = _changed(whole, lambda c: c.primary and c.environment == "lxc", change)
    assert sentences.care(few) == ("Read with care, 4 of 12 verdicts may not hold: drift (4).")
    doubtful = _changed(whole, lambda c: c.primary and c.workload == CPU.key and c.emulated, change)
    assert sentences.answer(doubtful)[3] == (
        "Read with care, 1 of 12 verdicts may not hold: qemu-tcg (emulated) in CPU, 1 thread "
        "(drift)."
    )


def test_a_run_that_judges_nothing_says_so(calm: Analysis) -> None:
    bare = calm.model_copy(update={"comparisons": (), "resources": ()})
    assert sentences.answer(bare) == ["This run compares nothing with native."]
    unjudged = calm.model_copy(update={"resources": ()})
    assert sentences.answer(unjudged) == [
        "No metric of this run is a primary one: nothing is judged."
    ]


def test_a_secondary_metric_is_told_without_a_verdict(calm: Analysis) -> None:
    c = next(c for c in calm.comparisons if c.metric == "latency_p95" and c.environment == "lxc")
    assert re.match(
        r"With LXC, CPU, 1 thread, latency_p95 has the ratio \d\.\d+ to native, "
        r"above 1 is worse \(95 % interval ",
        sentences.comparison_sentence(calm, c),
    )


def test_without_figures(calm: Analysis, compared: Comparison) -> None:
    nothing = compared.model_copy(
        update={"interval": None, "ratio": None, "verdict": None, "why": None, "primary": False}
    )
    assert sentences.comparison_sentence(calm, nothing).endswith("has no ratio.")


def test_emulation_is_always_named(calm: Analysis, compared: Comparison) -> None:
    plain = compared.model_copy(update={"environment_label": "qemu", "emulated": True})
    assert "qemu (emulated)" in sentences.comparison_sentence(calm, plain)
    twice = plain.model_copy(update={"environment_label": "qemu-tcg (emulated)"})
    assert sentences.comparison_sentence(calm, twice).count("emulated") == 1
    for c in calm.comparisons:
        assert ("emulated" in sentences.comparison_sentence(calm, c)) is c.emulated


def test_allowed_inequality_stands_in_every_sentence(tmp_path: Path) -> None:
    small = CONTAINER.model_copy(
        update={"nuisances": {**CONTAINER.nuisances, "memory": "512MiB", "cpus": "2"}}
    )
    analysis = _analysis(tmp_path, environments=[NATIVE, AGAIN, small, LXC], allowed=["memory"])
    named = "container (crun) (with unequal cpus and memory, as the plan allows)"
    texts = sentences.answer(analysis)
    assert named in texts[0]
    assert "unequal" not in texts[1]
    for c in analysis.comparisons:
        expected = c.environment == "container"
        assert (named in sentences.comparison_sentence(analysis, c)) is expected


def test_figures_of_one_resource_that_disagree_are_told_apart(tmp_path: Path) -> None:
    two = CPU.model_copy(update={"key": "sysbench-cpu[threads=2]", "title": "CPU, 2 threads"})
    truth = {("lxc", two.key): 1.3, ("vm", CPU.key): 4.0, ("vm", two.key): 9.0}
    analysis = _analysis(tmp_path, workloads=[CPU, two], truth=truth, noise_sd=0.01, failures=[])
    container, lxc, vm, _ = sentences.answer(analysis)
    assert "equivalent to native within 2 % in CPU (mean of 2 figures) (95 %" in container
    assert re.search(r"is 1\.3\d*× worse than native in CPU, 2 threads \(95 % ", lxc)
    assert lxc.endswith("; CPU, 1 thread is equivalent within 2 %.")
    assert re.search(r"is \d\.\d+× worse than native in CPU \(mean of 2 figures\) \(95 % ", vm)


def test_a_gain_is_a_gain(tmp_path: Path) -> None:
    truth = {("lxc", CPU.key): 0.8, ("vm", CPU.key): 3.0}
    analysis = _analysis(tmp_path, workloads=WORKLOADS[:2], truth=truth, noise_sd=0.01, failures=[])
    sentence = sentences.answer(analysis)[1]
    assert re.search(r"LXC is 1\.2\d+× better than native in CPU \(95 % ", sentence)
    assert sentence.endswith("; memory is equivalent within 2 %.")


def test_a_floor_that_the_apparatus_failed(calm: Analysis) -> None:
    sentence = sentences.floor_sentence(calm.model_copy(update={"again_differing": 1}))
    assert sentence is not None
    assert "1 of 4 such comparisons show a difference where there is none" in sentence
    assert sentences.floor_sentence(calm.model_copy(update={"again_total": 0})) is None


@pytest.mark.parametrize(
    ("floor", "expected"), [(1.0201, "2.1 %"), (1.02, "2.0 %"), (1.114, "12 %"), (2.31, "2.4×")]
)
def test_a_floor_is_rounded_up(floor: float, expected: str) -> None:
    assert words.floor_words(floor) == expected


def test_a_guests_words_are_in_no_sentence(calm: Analysis) -> None:
    of_comparisons = [sentences.comparison_sentence(calm, c) for c in calm.comparisons]
    texts = [*sentences.answer(calm), *of_comparisons]
    assert SCRIPT not in "".join(texts)
    assert "<" not in "".join(texts)


def test_curves_have_sentences(tmp_path: Path) -> None:
    analysis = _analysis(tmp_path, workloads=[CURVE_WORKLOAD], noise_sd=0.005, failures=[])
    assert all(s.startswith("On this machine ") for s in sentences.answer(analysis)[:3])


def test_lists() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


def test_many_that_share_a_reason_are_counted_not_named() -> None:
    names = [f"CPU, {n} threads" for n in range(2, 12)]
    assert sentences._several(names[:2], 10) == "CPU, 2 threads and CPU, 3 threads"
    assert sentences._several(names[:9], 10) == "9 of 10 figures"
    assert sentences._several(names, 10) == "all 10 figures"


def test_a_floor_of_nothing_is_not_told(calm: Analysis) -> None:
    """Two copies that always print the same: 0.0 % would be no floor."""
    none = calm.model_copy(
        update={"comparisons": tuple(c.model_copy(update={"floor": 1.0}) for c in calm.comparisons)}
    )
    assert sentences.floor_sentence(none) is None


def test_figures_of_which_the_second_copy_is_lost_are_named(calm: Analysis) -> None:
    def change(c: Comparison) -> Comparison:
        return c.model_copy(update={"floor": None, "verdict": "inconclusive", "why": "no-copy"})

    lost = _changed(calm, lambda c: c.primary and c.workload == CPU.key, change)
    sentence = sentences.floor_sentence(lost)
    assert sentence is not None
    assert "in CPU, 1 thread, where nothing is called one" in sentence


def test_of_a_table_the_floor_is_told_by_figure(calm: Analysis) -> None:
    table = calm.model_copy(
        update={
            "comparisons": tuple(
                c.model_copy(update={"resource": "other"}) for c in calm.comparisons
            )
        }
    )
    sentence = sentences.floor_sentence(table)
    assert sentence is not None
    assert "% in CPU, 1 thread" in sentence
    assert "other work" not in sentence


@pytest.mark.parametrize(("key", "where"), [("mine", "mine"), ("command", "other work")])
def test_work_of_no_resource_is_called_by_its_as(calm: Analysis, key: str, where: str) -> None:
    def change(c: Comparison) -> Comparison:
        update = {"workload": key, "workload_title": f"{key}, size 2" if key == "mine" else "sh -c"}
        return c.model_copy(update={**update, "resource": "other"})

    comparisons = tuple(change(c) if c.workload == CPU.key else c for c in calm.comparisons)
    summaries = tuple(
        r.model_copy(update={"resource": "other", "members": ((key, r.members[0][1]),)})
        for r in calm.resources
        if r.resource == "cpu"
    )
    changed = calm.model_copy(update={"comparisons": comparisons, "resources": summaries})
    text = " ".join(sentences.answer(changed))
    assert (f"{where}, size 2" if key == "mine" else where) in text


def test_copies_that_differ_come_first(calm: Analysis) -> None:
    def apart(c: Comparison, p: float) -> Comparison:
        return c.model_copy(update={"interval": _interval(1.02, 1.04), "p_difference": p})

    first, *rest = calm.again
    surely = calm.model_copy(update={"again": (apart(first, 0.001), *rest)})
    assert sentences.answer(surely)[0] == (
        f"Two copies of the same environment differ: native in {first.workload_title} (1.030 "
        "(1.020 to 1.040)). The apparatus prefers one of them; what is called a difference below "
        "differs from both."
    )
    perhaps = calm.model_copy(update={"again": (apart(first, 0.04), *rest)})
    assert sentences.answer(perhaps)[0] == sentences.answer(calm)[0], "one of four may by chance"


def test_a_sure_difference_within_the_margin_shows_its_interval(calm: Analysis) -> None:
    def change(c: Comparison) -> Comparison:
        return _with(c, 1.004, 1.011, verdict="equivalent", why="within-margin")

    chosen = _changed(calm, lambda c: c.environment == "vm" and c.workload == CPU.key, change)
    assert "CPU (1.004 to 1.011) is equivalent within 2 %" in sentences.answer(chosen)[2]


def test_under_twelve_blocks_memory_cannot_be_told(calm: Analysis) -> None:
    assert sentences.memory_sentence(calm) is None
    short = _changed(
        calm, lambda c: c.primary, lambda c: c.model_copy(update={"pairs": 8, "dropped": 0})
    )
    assert str(sentences.memory_sentence(short)).startswith("From 8 blocks nobody can tell whether")
    assert sentences.memory_sentence(short.model_copy(update={"blocks_each": 2})) is None
    undecided = _changed(
        short, lambda c: c.primary, lambda c: c.model_copy(update={"verdict": "inconclusive"})
    )
    assert sentences.memory_sentence(undecided) is None


def test_verdicts_that_older_rules_gave_otherwise_are_told_in_one_line(calm: Analysis) -> None:
    assert sentences.rules_sentence(calm) is None
    of = Rejudged(
        environment_label="LXC",
        workload_title="CPU, 1 thread",
        metric="events_rate",
        before="better",
        now="inconclusive",
        why="unseen",
    )
    assert sentences.asides(calm.model_copy(update={"rejudged": (of,)}))[-1] == (
        "Verdicts have other rules than when this run was made: LXC in CPU, 1 thread was better, "
        "is inconclusive (slow trials may have been missed)."
    )
    many = sentences.rules_sentence(calm.model_copy(update={"rejudged": (of,) * 5}))
    assert many is not None
    assert many.endswith(" and 2 more.")
