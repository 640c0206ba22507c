"""`ullage compare` as a user meets it: what it prints where, and how it ends."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from testing.synthetic import make_run
from tests.support import commandkit
from tests.support.commandkit import Ullage
from ullage.analysis.comparison.model import Analysis
from ullage.runs import parquet
from ullage.runs.reader import RunFolder

ullage = commandkit.in_this_process("compare")


def table(
    folder: Path, workloads: int = 1, blocks: int = 20, names: tuple[str, str] = ("native", "vm")
) -> Path:
    rng = np.random.default_rng(8)
    file = folder / "times.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("environment", "workload", "block", "value"))
        for at in range(workloads):
            for block in range(blocks):
                common = rng.normal(0, 0.2)
                for name, ratio in zip(names, (1.0, 1.25), strict=True):
                    value = ratio * np.exp(common + rng.normal(0, 0.01))
                    writer.writerow((name, f"work-{at}", block, value))
    return file


def test_the_answer_is_on_standard_output_and_what_to_know_beside_it_on_the_other(
    ullage: Ullage,
    tmp_path: Path,
) -> None:
    done = ullage(str(table(tmp_path)), "--baseline", "native", "--better", "lower")
    assert done.code == 0
    first, *rows = done.stdout.splitlines()
    assert first.startswith("vm is 1.2")
    assert "× worse than native in work-0 (95 % interval 1.2" in first
    assert first.endswith(", 20 blocks).")
    assert any("work-0" in row and row.rstrip().endswith("worse") for row in rows)
    assert "note: a table cannot show whether the environments were interleaved" in done.stderr
    assert "(no-again)" in done.stderr


def test_many_comparisons_are_counted(ullage: Ullage, tmp_path: Path) -> None:
    file = str(table(tmp_path, workloads=30, blocks=8))
    done = ullage(file, "--baseline", "native", "--better", "lower")
    assert done.stdout.startswith("Of 30 comparisons with native: 30 worse.\n")
    assert sum(line.startswith("  work-") for line in done.stdout.splitlines()) == 30


def test_json_and_csv(ullage: Ullage, tmp_path: Path) -> None:
    file = str(table(tmp_path, workloads=2))
    options = ("--baseline", "native", "--better", "lower", "--confidence", "0.9")
    done = ullage(file, *options, "--json", "--out", "results.csv")
    document = json.loads(done.stdout)
    assert any("interleaved" in note for note in document.pop("notes"))
    analysis = Analysis.model_validate(document)
    assert [c.verdict for c in analysis.comparisons] == ["worse", "worse"]
    assert analysis.confidence == 0.9
    assert done.stderr == ""
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert [row["workload"] for row in rows] == ["work-0", "work-1"]
    for row, c in zip(rows, analysis.comparisons, strict=True):
        assert float(row["ratio"]) == c.ratio
        assert row["verdict"] == "worse"


@pytest.mark.parametrize("shares", [("3%", "90%", "25 %"), ("0.03", "0.9", "0.25")])
def test_shares_are_written_as_in_a_plan(
    ullage: Ullage, tmp_path: Path, shares: tuple[str, str, str]
) -> None:
    margin, confidence, quantile = shares
    options = (f"--margin={margin}", f"--confidence={confidence}", f"--quantile={quantile}")
    done = ullage(str(table(tmp_path)), "--baseline=native", "--better=lower", *options, "--json")
    document = json.loads(done.stdout)
    assert (document["margin"], document["confidence"]) == (0.03, 0.9)
    assert "the 0.25 quantile is compared" in document["notes"][-1]


def test_details_tell_all_that_is_known(ullage: Ullage, tmp_path: Path) -> None:
    file = str(table(tmp_path))
    done = ullage(file, "--baseline", "native", "--better", "lower", "--details")
    assert "paired t on log-ratios" in done.stdout
    assert "robust variant" in done.stdout


def test_columns_are_mapped_and_a_second_copy_named(ullage: Ullage, tmp_path: Path) -> None:
    file = table(tmp_path)
    text = file.read_text().replace("environment,workload,block,value", "tool,job,run,seconds")
    file.write_text(text.replace("vm,", "other,"))
    mapped = [
        f"--column={role}={name}"
        for role, name in (
            ("environment", "tool"),
            ("workload", "job"),
            ("block", "run"),
            ("value", "seconds"),
        )
    ]
    done = ullage(
        str(file),
        *mapped,
        "--baseline=native",
        "--better=lower",
        "--again=other=native",
    )
    assert done.code == 0
    assert "A/A" in done.stdout
    sentence = "Nothing is left to compare with native but its own copy other."
    assert done.stdout.startswith(sentence)


def test_samples_of_a_run_need_no_options(ullage: Ullage, tmp_path: Path) -> None:
    folder = make_run(tmp_path, blocks=8)
    parquet.write(RunFolder.open(folder))
    done = ullage(str(folder / "samples.parquet"), "--baseline", "native")
    assert done.code == 0
    assert "qemu-tcg (emulated)" in done.stdout
    assert "may differ by" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--baseline=nativ", "--better=lower"), "table-no-environment"),
        (("--baseline=native",), "table-no-direction"),
        (("--baseline=native", "--better=faster"), "choose one of higher, lower"),
        (("--baseline=native", "--better=lower", "--column=value"), "ROLE=NAME"),
        (("--baseline=native", "--better=lower", "--column=valu=x"), "did you mean value?"),
        (("--baseline=native", "--better=lower", "--column=value=x"), "table-no-column"),
        (("--baseline=native", "--better=lower", "--again=vm"), "NAME=OF"),
        (("--baseline=native", "--better=lower", "--again=vm=vm"), "NAME=OF"),
        (("--baseline=native", "--better=lower", "--method=t"), "choose one of"),
        (("--baseline=native", "--better=lower", "--again=native=vm"), "'vm=native'"),
        (("--baseline=native", "--better=lower", "--quantile=99"), "'99' is not a fraction"),
        (("--baseline=native", "--better=lower", "--margin=2"), "'2' is not a fraction"),
        (("--baseline=native", "--better=lower", "--margin=-1"), "'-1' is not a fraction"),
        (("--baseline=native", "--better=lower", "--margin=x%"), "'x%' is not a fraction"),
        (("--baseline=native", "--better=lower", "--confidence=nan"), "'nan' is not a fraction"),
        (("--baseline=native", "--better=lower", "--confidence=5%"), "'5%' is not a fraction"),
        (("--baseline=native", "--better=lower", "--correction=none"), "choose one of"),
        (("--baseline=native", "--better=lower", "--out=no/such/place.csv"), "file-failed"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_to_do(
    ullage: Ullage, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = ullage(str(table(tmp_path)), *options)
    assert done.code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["\x1b[31mred", "[bold red]x[/]", "a\u202eb", ":warning:"])
def test_names_do_not_steer_the_terminal(ullage: Ullage, tmp_path: Path, name: str) -> None:
    file = str(table(tmp_path, names=("native", name)))
    for options in ((), ("--json",), ("--details",)):
        done = ullage(file, "--baseline=native", "--better=lower", *options)
        assert done.code == 0
        for hidden in ("\x1b", "\u202e"):
            assert hidden not in done.stdout + done.stderr
    if name.isascii() and name.isprintable():
        assert f"{name} is 1.2" in ullage(file, "--baseline=native", "--better=lower").stdout
    done = ullage(file, f"--baseline={name}x", "--better=lower")
    assert done.code == 2
    assert "\x1b" not in done.stderr


def test_the_command_as_a_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ullage", "compare", str(table(tmp_path)), "--baseline=native"]
    done = subprocess.run([*argv, "--better=lower"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "worse than native" in done.stdout
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "hint: give `--better lower`" in done.stderr
