"""The figures that the docs say besides: each simulation sees what it should see."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.statistics import doc_claims
from benchmarks.statistics.doc_claims import DocClaim, Task


def counted(part: str, campaigns: int) -> dict[str, DocClaim]:
    (make,) = [claim for claim in doc_claims.PARTS if claim.__name__ == part]
    return {claim.what: claim for claim in Task(make, campaigns, 7)()}


def test_the_same_seed_gives_the_same_counts() -> None:
    assert counted("dry_run", 30) == counted("dry_run", 30)


def test_a_series_with_a_step_in_it_is_doubted() -> None:
    clean = doc_claims.normal(np.random.default_rng(1), 1, 40)[0]
    assert not doc_claims.doubted(clean)
    assert doc_claims.doubted(clean + np.where(np.arange(40) < 20, 0.0, 1.0))


def test_a_difference_that_is_there_is_claimed_and_none_else() -> None:
    x, again = doc_claims.trials(np.random.default_rng(2), 1, 12)
    assert doc_claims.verdict(x[0] + 0.5, again[0]).verdict == "worse"
    assert doc_claims.verdict(x[0], again[0]).verdict == "inconclusive"


def test_a_dry_run_promises_what_comes() -> None:
    for claim in counted("dry_run", 200).values():
        assert claim.share.at_most(0.8) and claim.share.at_least(0.8), claim


@pytest.mark.parametrize("sides", ["alike", "differ"])
def test_a_duet_holds_the_truth(sides: str) -> None:
    claims = [claim for what, claim in counted("duet", 25).items() if sides in what]
    for claim in claims:
        if "holds" in claim.what:
            assert claim.share.at_least(0.95), claim
        else:
            assert claim.share.at_most(0.05), claim


def test_benjamini_hochberg_finds_no_less_than_holm() -> None:
    claims = counted("corrections", 12)
    holm = claims["Holm: differences found"].share
    rate = claims["Benjamini–Hochberg: differences found"].share
    assert 0 < holm.hits <= rate.hits
