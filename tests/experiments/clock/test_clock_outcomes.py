"""What `ullage-clocklab` writes is read; its own test, `outcomes.rs`, holds the file to it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ullage.cli.main import app
from ullage.common.clock_model import FrozenModel
from ullage.experiments.clock import lab
from ullage.experiments.clock.outcomes import (
    CostOutcome,
    EcpOutcome,
    LoopsOutcome,
    ScalingOutcome,
    StrictOutcome,
)

WRITTEN: dict[str, list[Any]] = json.loads(
    (Path(__file__).parent / "data" / "outcomes.json").read_text()
)
MODELS: dict[str, type[FrozenModel]] = {
    "cost": CostOutcome,
    "ecp": EcpOutcome,
    "loops": LoopsOutcome,
    "scaling": ScalingOutcome,
    "strict": StrictOutcome,
}


OUTCOMES = [(unit, outcome) for unit, variants in WRITTEN.items() for outcome in variants]


@pytest.mark.parametrize(("unit", "outcome"), OUTCOMES)
def test_every_outcome_is_read_with_nothing_lost(unit: str, outcome: Any) -> None:
    read = MODELS[unit].model_validate_json(json.dumps(outcome))
    assert read.model_dump(mode="json") == outcome


def test_the_check_says_what_it_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = [
        outcome
        for outcome in WRITTEN["loops"]
        if outcome["external"] and outcome["external"]["passed_over"]
    ]
    measured = LoopsOutcome.model_validate(chosen[0])
    monkeypatch.setattr(lab, "loops", lambda options, advance: measured)
    page = tmp_path / "check.html"
    done = CliRunner().invoke(app, ["clock", "check", "--quick", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "Passed over: /dev/ptp*: there is none." in page.read_text()
