"""Tables of figures that a tool printed coarsely: a constant is not perfect."""

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.tablekit import analysed, codes, only, paired
from ullage.analysis.comparison.model import Comparison
from ullage.stats import Floats


def _printed(seed: int, n: int, sd: float) -> Floats:
    """A truth of 20.35 with that much noise, to the unit."""
    noise = np.random.default_rng(seed).normal(0, sd, n)
    return np.asarray(np.round(20.35 * np.exp(noise)))


def _verdicts(folder: Path, n: int, *, blocks: bool) -> list[Comparison]:
    comparisons = []
    for seed in range(12):
        columns = paired([20.0] * n, _printed(seed, n, 0.05).tolist())
        if not blocks:
            del columns["block"]
        comparisons.append(only(analysed(folder, columns, better="higher")))
    return comparisons


@pytest.mark.parametrize("blocks", [True, False])
def test_rounding_is_called_no_difference(tmp_path: Path, blocks: bool) -> None:
    """Truth 1.00: the baseline always prints 20, the noisier environment 20.35 in the mean."""
    comparisons = _verdicts(tmp_path, 100, blocks=blocks)
    assert not {"worse", "better"} & {c.verdict for c in comparisons}
    assert all("coarse" in codes(c) for c in comparisons)
    assert any(c.why == "systematic" for c in comparisons)


def test_what_rounding_cannot_make_is_a_difference(tmp_path: Path) -> None:
    vm = (1.3 * _printed(1, 40, 0.05)).round().tolist()
    c = only(analysed(tmp_path, paired([20.0] * 40, vm), better="higher"))
    assert c.verdict == "better"


def test_a_constant_beside_fine_figures_is_no_coarse_one(tmp_path: Path) -> None:
    """Figures relative to the baseline, as tables often have them."""
    vm = np.random.default_rng(2).lognormal(0.1, 0.02, 12)
    c = only(analysed(tmp_path, paired([1.0] * 12, vm.tolist())))
    assert (c.verdict, "coarse" in codes(c)) == ("worse", False)


def test_the_quantile_of_coarse_figures_is_coarse(tmp_path: Path) -> None:
    native, vm = _printed(3, 400, 0.05), _printed(4, 400, 0.09)
    columns = paired(native.tolist(), vm.tolist())
    del columns["block"]
    c = only(analysed(tmp_path, columns, quantile=0.5))
    assert "coarse" in codes(c)
    assert c.verdict == "inconclusive"


def test_two_copies_that_print_the_same_leave_the_floor_unknown(tmp_path: Path) -> None:
    columns = {
        "environment": ["native"] * 12 + ["again"] * 12 + ["vm"] * 12,
        "block": [*range(12)] * 3,
        "value": [20.0] * 24 + (1.5 * _printed(5, 12, 0.05)).round().tolist(),
    }
    answer = analysed(tmp_path, columns, better="higher", again={"again": "native"})
    assert only(answer).floor is None
