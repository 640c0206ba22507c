"""Nothing that was cut or changed on the way is read as if nothing had happened.

`tests/lab/chaos/journal.py` does the same a hundred thousand times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.chaos import journal as campaign
from tests.runs.sealedrun import sealed_run

MOST = 300


@pytest.mark.parametrize("subject", [campaign.journal, campaign.resolved, campaign.meter])
def test_no_flipped_bit_and_no_cut_goes_unseen(subject: object, tmp_path: Path) -> None:
    assert callable(subject)
    of = subject(sealed_run(tmp_path, blocks=1))
    data = of.file.read_bytes()
    counts = campaign.outcomes(of, campaign.flips(data, MOST, seed=2))
    assert counts == {"refused": MOST}
    last = (data[: len(data) - end] for end in range(1, MOST))
    counts = campaign.outcomes(of, last)
    assert set(counts) <= {"refused", "said"}
