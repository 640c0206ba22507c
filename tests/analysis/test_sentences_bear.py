"""No sentence claims what its verdict does not bear: for generated comparisons."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.synthetic import make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison import words
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.comparison.pairing import stored
from ullage.analysis.comparison.rounding import inverse, share
from ullage.runs.reader import RunFolder
from ullage.stats import interval as intervals
from ullage.stats.interval import Moments
from ullage.stats.uncertainty import Floor
from ullage.stats.verdict import FamilyMember, judge, p_values

RESOURCES = ("cpu", "memory", "disk", "network")
NUMBER = r"[0-9.]+"


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """To be filled with other figures."""
    run = make_run(tmp_path_factory.mktemp("bear") / "run", blocks=6, raw=False)
    return overhead.analyse(RunFolder.open(run))


@st.composite
def judged(draw: st.DrawFn) -> dict[str, Any]:
    """What a comparison knows, with the verdict that `judge` gives it."""
    n = draw(st.integers(2, 40))
    mean = draw(st.floats(-1.5, 1.5) | st.floats(-0.03, 0.03))
    deviation = draw(st.floats(1e-4, 0.5))
    m = Moments(n, mean, deviation / math.sqrt(n), deviation)
    floor = draw(st.none() | st.builds(Floor, st.floats(1, 1.3), st.booleans()))
    margin = draw(st.sampled_from([0.01, 0.02, 0.1]))
    systematic = draw(st.just(0.0) | st.floats(0, 0.05))
    case = FamilyMember(m, p_values(m, margin), floor, systematic=systematic)
    judgement = judge([case], margin, 0.95)[0]
    half = intervals.t_quantile(0.975, m.df) * m.error
    low, high = math.exp(mean - half), math.exp(mean + half)
    bare = intervals.IntervalEstimate(math.exp(mean), low, high, 0.95, n, "t")
    nested = draw(st.booleans())
    per_making = draw(st.integers(1, 5)) if nested else 1
    return {
        "interval": stored(bare),
        "ratio": bare.estimate,
        "precision": "intermediate" if nested else "repeatability",
        "generations": n if nested else 1,
        "pairs": n * per_making,
        "verdict": judgement.verdict,
        "why": judgement.why,
        "no_verdict": None,
        "floor": floor.ratio if floor else None,
        "floor_biased": bool(floor and floor.biased),
        "blocks_to_settle": judgement.blocks_to_settle and judgement.blocks_to_settle * per_making,
        "makings_to_settle": judgement.blocks_to_settle if nested else None,
        "budget": None,
        "emulated": draw(st.booleans()),
        "environment_label": "other",
        "margin": margin,
    }


def _filled(
    analysis: Analysis, judgements: list[dict[str, Any]], design: str
) -> tuple[Analysis, list[Comparison]]:
    """An analysis of one environment with these comparisons, one for each resource."""
    of = [c for c in analysis.primary() if c.environment == "lxc"]
    updates = [{k: v for k, v in fields.items() if k != "margin"} for fields in judgements]
    emulated = {"emulated": judgements[0]["emulated"]}
    comparisons = [
        c.model_copy(update=update | emulated) for c, update in zip(of, updates, strict=False)
    ]
    summaries = {r.resource: r for r in analysis.resources if r.environment == "lxc"}
    copied = ("interval", "ratio", "verdict", "precision", "generations", "pairs")
    resources = tuple(
        summaries[c.resource].model_copy(
            update={k: getattr(c, k) for k in copied} | emulated | {"environment_label": "other"}
        )
        for c in comparisons
    )
    more = {"design": design, "margin": judgements[0]["margin"]}
    whole = {"comparisons": tuple(comparisons), "resources": resources, **more}
    return analysis.model_copy(update=whole), comparisons


def _printed(sentence: str) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in re.findall(rf"({NUMBER}) to ({NUMBER})", sentence)]


def _printed_interval(c: Comparison) -> Interval:
    assert c.interval is not None
    return inverse(c.interval) if c.verdict == "better" else c.interval


@given(update=judged(), design=st.sampled_from(["solo", "duet"]))
def test_one_comparison(analysis: Analysis, update: dict[str, Any], design: str) -> None:
    whole, (c, *_) = _filled(analysis, [update], design)
    sentence = sentences.comparison_sentence(whole, c)
    for verdict, claim in (
        ("worse", "× worse than native in"),
        ("better", "× better than native in"),
        ("equivalent", "is equivalent to native within"),
        ("inconclusive", "is inconclusive"),
    ):
        assert (claim in sentence) is (c.verdict == verdict), sentence
    (low, high), *_ = _printed(sentence)
    interval = _printed_interval(c)
    assert low <= interval.low + 1e-6
    assert high >= interval.high - 1e-6
    if c.verdict in ("worse", "better"):
        assert low > 1
    if c.verdict == "equivalent":
        assert 1 / (1 + whole.margin) - 0.01 < low <= high < 1 + whole.margin + 0.01
        assert f"within {share(whole.margin)}" in sentence
    assert f"95 % interval {words.between(interval)}, {words.counted(c)}" in sentence
    assert ("(emulated)" in sentence) is c.emulated
    assert ("side by side" in sentence) is (design == "duet")


@given(
    judgements=st.lists(judged(), min_size=1, max_size=4), design=st.sampled_from(["solo", "duet"])
)
def test_one_environment(analysis: Analysis, judgements: list[dict[str, Any]], design: str) -> None:
    whole, comparisons = _filled(analysis, judgements, design)
    sentence = sentences.answer(whole)[0]
    verdicts = [c.verdict for c in comparisons]
    sizes = re.findall(rf"({NUMBER})×", sentence)
    assert len(sizes) == verdicts.count("worse") + verdicts.count("better")
    assert ("worse" in sentence) is ("worse" in verdicts)
    assert ("better" in sentence) is ("better" in verdicts)
    assert ("equivalent" in sentence) is ("equivalent" in verdicts)
    opened = "inconclusive" in sentence or "nothing is decided yet" in sentence
    assert opened is ("inconclusive" in verdicts)
    assert "95 %" in sentence
    assert ("side by side" in sentence) is (design == "duet")
    assert ("(emulated)" in sentence) is comparisons[0].emulated
    for c in comparisons:
        assert len(re.findall(rf"\b{words.RESOURCES[c.resource]}\b", sentence)) == 1
        assert words.counted(c) in sentence
        if c.verdict != "equivalent":
            assert words.between(_printed_interval(c)) in sentence
