from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from testing.synthetic import make_run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.listing import list_runs
from ullage.runs.reader import RunFolder, find_runs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "20261121T021033-vm-or-container", blocks=2, raw=False)


def _lines(run: Path) -> list[str]:
    return (run / "journal.jsonl").read_text().splitlines()


def _write(run: Path, lines: list[str], end: str = "\n") -> None:
    (run / "journal.jsonl").write_text("\n".join(lines) + end)


def _refused(run: Path) -> str:
    with pytest.raises(UllageError) as caught:
        RunFolder.open(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    return caught.value.message


def test_reads_what_the_engine_wrote(run: Path) -> None:
    folder = RunFolder.open(run)
    assert len(folder.trials) == 2 * 5 * 4
    assert folder.complete_blocks == (0, 1)
    assert [block.block for block in folder.blocks] == [0, 1]
    assert len(folder.provisioned) == 5
    assert folder.warnings[0].code == "emulated"
    assert folder.finished is not None
    assert folder.finished.reason == "blocks"
    assert not folder.truncated
    assert gc.isenabled()


def test_a_last_line_that_was_cut_is_left_out(run: Path) -> None:
    lines = _lines(run)
    for cut in ('{"event":"trial","tri', "\0\0\0", lines[-1]):
        _write(run, [*lines[:-1], cut], end="")
        folder = RunFolder.open(run)
        assert folder.truncated
        assert folder.finished is None, "without its newline a line was never acknowledged"
        assert len(folder.trials) == 40


@pytest.mark.parametrize(
    "bad",
    [
        '{"event":"trial","tri',
        "",
        "[]",
        '{"event":"surprise"}',
        '{"event":"block","block":1,"epoch_ns":1,"seconds":1.0,"more":1}',
    ],
)
def test_any_other_bad_line_is_refused_with_its_number(run: Path, bad: str) -> None:
    lines = _lines(run)
    _write(run, [*lines[:4], bad, *lines[4:]])
    assert "journal.jsonl, line 5" in _refused(run)


def test_a_figure_that_is_no_number_is_refused(run: Path) -> None:
    lines = _lines(run)
    at = next(i for i, line in enumerate(lines) if '"events_rate":' in line)
    event = json.loads(lines[at])
    event["metrics"]["events_rate"] = None
    _write(run, [*lines[:at], json.dumps(event), *lines[at + 1 :]])
    assert f"line {at + 1}" in _refused(run)


def test_the_complaint_does_not_repeat_what_a_guest_said(run: Path) -> None:
    lines = _lines(run)
    _write(run, ['{"event":"</script><script>"}', *lines])
    assert "<script>" not in _refused(run)


def test_a_trial_that_stands_twice_is_refused(run: Path) -> None:
    lines = _lines(run)
    again = next(line for line in lines if '"trial":"b001-t003"' in line)
    _write(run, [*lines, again])
    assert "b001-t003 stands in the journal twice" in _refused(run)


def test_a_cell_twice_in_a_block_is_refused(run: Path) -> None:
    lines = _lines(run)
    again = next(line for line in lines if '"trial":"b001-t003"' in line)
    _write(run, [*lines, again.replace("b001-t003", "b001-t099")])
    assert "twice" in _refused(run)


def test_a_cell_that_the_plan_does_not_have_is_refused(run: Path) -> None:
    lines = [line.replace('"environment":"lxc"', '"environment":"ghost"') for line in _lines(run)]
    _write(run, lines)
    assert "unknown cell" in _refused(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 2', '"format": "two"'),
        ('"baseline": "native"', '"baseline": "ghost"'),
        ('"again_of": "native"', '"again_of": "ghost"'),
        ('"seed":', '"seeds":'),
        ("{", ""),
    ],
)
def test_another_resolved_json_is_refused(run: Path, old: str, new: str) -> None:
    file = run / "resolved.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    _refused(run)


def test_another_format_is_named(run: Path) -> None:
    file = run / "resolved.json"
    file.write_text(file.read_text().replace('"format": 2', '"format": 1', 1))
    assert "not a run folder of format 2: it is of format 1" in _refused(run)


@pytest.mark.parametrize("name", ["", "nothing"])
def test_no_run_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(UllageError) as caught:
        RunFolder.open(tmp_path / name)
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_a_run_that_has_only_begun(run: Path) -> None:
    (run / "journal.jsonl").unlink()
    folder = RunFolder.open(run)
    assert (folder.trials, folder.finished, folder.complete_blocks) == ((), None, ())


def test_interrupted_and_taken_up_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blocks=3, pause=(1, 900.0), finished=False, raw=False)
    lines = _lines(run)
    at = next(i for i, line in enumerate(lines) if '"resumed":true' in line)
    ended = '{"event":"finished","epoch_ns":1,"seconds":1.0,"reason":"interrupted"}'
    _write(run, [*lines[:at], ended, *lines[at:]])
    folder = RunFolder.open(run)
    assert len(folder.sessions) == 2
    assert folder.finished is None, "the end of the first session is not the end of the run"


def test_outputs_stay_in_the_folder(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=1))
    name = folder.trials[0].roles[0].stdout
    assert name is not None
    assert folder.raw(name).read_text().startswith(folder.trials[0].workload)
    (folder.path / "trials" / "link").symlink_to("/etc/passwd")
    for out in ("../secret", "/etc/passwd", "trials/../../x", "trials/link"):
        with pytest.raises(UllageError) as caught:
            folder.raw(out)
        assert caught.value.kind is errors.RUN_BAD_FORMAT


def test_list_newest_first_and_the_broken_ones_too(tmp_path: Path) -> None:
    make_run(tmp_path / "20261120T000000-a", blocks=2, raw=False)
    make_run(tmp_path / "20261122T000000-b", blocks=1, failures=[], finished=False, raw=False)
    make_run(tmp_path / "20261121T000000-c", blocks=1, raw=False)
    (tmp_path / "20261121T000000-c" / "resolved.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    new, broken, old = list_runs(tmp_path)
    assert [new.run[-1], broken.run[-1], old.run[-1]] == ["b", "c", "a"]
    assert (new.finished, new.blocks, new.trials, new.failed) == (None, 1, 20, 0)
    assert (old.finished, old.blocks, old.ok, old.failed) == ("blocks", 2, 40, 0)
    assert old.started == "2026-11-21T02:10:33Z"
    assert broken.problem is not None
    assert "resolved.json" in broken.problem


def test_a_run_folder_is_a_list_of_one(run: Path) -> None:
    assert find_runs(run) == [run]
    assert find_runs(run / "nothing") == []
