"""The fast part of the campaign, in every `make test`; and that it says how to repeat a fault."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.chaos.campaign import Campaign, Case, numbered
from tests.lab.chaos.fuzz.parsers import PARSERS, Parser
from tests.lab.chaos.ledger import Ledger, Played, table

CASES = {
    "kills": ("native-0",),
    "surroundings": ("told-native-0", "clock-native-0"),
    "lying-agents": ("native/exit-twice", "oci/exit-first"),
}
MUTATIONS = 300


def chaos(ledger: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.lab.chaos", "--ledger", str(ledger), *argv]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.mark.root
@pytest.mark.parametrize(
    "campaign",
    ["kills", "lying-agents", pytest.param("surroundings", marks=pytest.mark.lab)],
)
def test_a_few_cases(campaign: str, tmp_path: Path, agent_binary: Path) -> None:
    chosen = [word for case in CASES[campaign] for word in ("--case", case)]
    played = chaos(tmp_path / "ledger", "--only", campaign, *chosen)
    assert played.returncode == 0, played.stdout + played.stderr
    assert set(Ledger(tmp_path / "ledger").of(campaign)) == set(CASES[campaign])


def test_a_fault_prints_what_repeats_it(tmp_path: Path) -> None:
    """There is no such lie, so the case fails."""
    argv = ("--seed", "5", "--only", "lying-agents", "--case", "native/no-such-lie")
    played = chaos(tmp_path / "ledger", *argv)
    assert played.returncode == 1
    assert f"-m tests.lab.chaos {' '.join(argv)}" in played.stdout
    assert re.search(r"\| 1 of [\d,]+ cases \| 1 \|$", played.stdout.rstrip())


def test_the_table_adds_up_what_was_done(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    row = Campaign("x", "things", "≥ 4", lambda _: numbered("case", 4), lambda _: None)
    for case, fault in (("case-0", None), ("case-1", "bad"), ("case-1", None)):
        ledger.add(Played("x", case, {"kills": 1000, "most_ms": 7}, 1.0, fault, "0"))
    assert table([row], ledger, 1).splitlines()[-1] == (
        "| things | ≥ 4 | 2 of 4 cases; kills: 2,000; most ms: 7 | 0 |"
    )


def test_a_case_is_drawn_from_its_names_alone(tmp_path: Path) -> None:
    first, again, other = (Case(name, 1, "x", tmp_path).random.random() for name in "aab")
    assert first == again != other


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_parsers_refuse_what_they_cannot_read(parser: Parser) -> None:
    chance = random.Random(parser.name)
    for _ in range(MUTATIONS):
        data = bytearray(chance.choice(parser.seeds)[:4096])
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        parser(bytes(data))
