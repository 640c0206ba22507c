"""Values that several commands take as a plan does."""

from __future__ import annotations

import pytest
import typer

from ullage.cli.options import seconds


def test_a_duration_is_read_as_in_a_plan() -> None:
    assert seconds("--within", "1h30m") == 5400.0
    assert seconds("--extend", "0s", none=True) == 0.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", "such as 500ms, 90s, 10m or 1h30m"),
        ("0s", "greater than 0"),
        ("inf", "such as 500ms, 90s, 10m or 1h30m"),
    ],
)
def test_what_is_none_is_refused_with_its_option(text: str, reason: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"--budget: .*{reason}"):
        seconds("--budget", text)
