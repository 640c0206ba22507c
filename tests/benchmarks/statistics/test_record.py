"""Recording: what is written, what a kill leaves, and what is said when a tool is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.statistics import record
from benchmarks.statistics.__main__ import main
from benchmarks.statistics.record import RecordingError, chosen, figure, open_for_more

COLUMNS = ("cpu_eps", "memory_MiBps")
HEADER = "t_s,cpu_eps,memory_MiBps"


def test_a_new_file_has_its_header(tmp_path: Path) -> None:
    file = tmp_path / "noise.csv"
    open_for_more(file, ["# machine: mine"], COLUMNS)
    assert file.read_text() == f"# machine: mine\n{HEADER}\n"


def test_a_torn_row_is_cut_off_and_whole_ones_stay(tmp_path: Path) -> None:
    file = tmp_path / "noise.csv"
    file.write_text(f"# machine: mine\n{HEADER}\n1,2,3\n4,5")
    open_for_more(file, ["# machine: another"], COLUMNS)
    lines = file.read_text().splitlines()
    assert lines[:3] == ["# machine: mine", HEADER, "1,2,3"]
    assert len(lines) == 4
    assert lines[3].startswith("# went on: ")


@pytest.mark.parametrize("text", ["t_s,cpu_eps\n1,2\n", "no line end", "# only\n"])
def test_another_recording_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "noise.csv"
    file.write_text(text)
    with pytest.raises(RecordingError, match="columns"):
        open_for_more(file, [], COLUMNS)
    assert file.read_text() == text


def test_figures_are_read_out_of_reports() -> None:
    assert figure(r"per second:\s*([0-9.]+)", "    events per second:  2748.73\n") == 2748.73


@pytest.mark.parametrize("report", ["", "events per second: 0.00", "events per second: fast"])
def test_no_figure_is_no_zero(report: str) -> None:
    with pytest.raises(RecordingError, match="no figure"):
        figure(r"per second:\s*([0-9.]+)", report)


def test_measures_are_named() -> None:
    assert [measure.key for measure in chosen(["disk", "cpu"])] == ["cpu", "disk"]
    with pytest.raises(RecordingError, match="no measure colour; there are cpu, memory, disk"):
        chosen(["cpu", "colour"])


def _program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


SYSBENCH = """case "$1" in
  --version) echo 'sysbench 9.9';;
  cpu) echo 'events per second:  10.5';;
  memory) echo '100 MiB transferred (20.25 MiB/sec)';;
esac"""


def test_a_recording_is_made_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(tmp_path, "sysbench", SYSBENCH)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "noise.csv"
    command = ["--record", str(file), "--minutes", "0.001", "--measures", "cpu,memory"]
    main([*command, "--note", "a  made-up\nsysbench"])
    main(command)
    lines = file.read_text().splitlines()
    assert [line.partition(":")[0] for line in lines[:4]] == [
        "# machine",
        "# begun",
        "# tools",
        "# note",
    ]
    assert "sysbench 9.9" in lines[2]
    assert lines[3] == "# note: a made-up sysbench"
    assert lines[4] == HEADER
    rows = [line.split(",") for line in lines[5:] if not line.startswith("#")]
    assert len(rows) >= 2
    assert {tuple(row[1:]) for row in rows} == {("10.5", "20.25")}
    assert sum(line.startswith("# went on") for line in lines) == 1
    assert "turns written to" in capsys.readouterr().out


def test_a_failing_tool_leaves_the_rows_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"""if [ "$1" = cpu ]; then
  [ -e {tmp_path}/done ] && {{ echo 'FATAL: no memory' >&2; exit 3; }}
  touch {tmp_path}/done
fi
{SYSBENCH}"""
    _program(tmp_path, "sysbench", once)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "noise.csv"
    with pytest.raises(RecordingError, match="ended with 3: FATAL: no memory"):
        record.record(file, 1, ["cpu"], "")
    assert len([x for x in file.read_text().splitlines() if not x.startswith("#")]) == 2


def test_a_missing_tool_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_more: None)
    file = tmp_path / "noise.csv"
    with pytest.raises(SystemExit, match=r"sysbench.*apt-get install sysbench"):
        main(["--record", str(file), "--minutes", "1"])
    assert not file.exists()
