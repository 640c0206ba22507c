"""Where the CPUs worked, of each cell: means, what is left out, and the trial that is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from tests.analysis.hotspotkit import HZ, Place, put, table
from tests.support import commandkit
from ullage.analysis.causes import hotspots
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

CPU = WORKLOADS[0]
NATIVE = ENVIRONMENTS[0]
WORK: Place = ("programs", "sysbench", "libm.so.6", "")
CALL: Place = ("programs", "sysbench", "kernel", "do_syscall_64")
SLEEP: Place = ("hypervisor", "qemu", "kernel", "do_sys_poll")


def folder_of(path: Path, **more: Any) -> RunFolder:
    """A run without tables, whose trials are 10 s long and went well."""
    options: dict[str, Any] = {"blocks": 4, "workloads": (CPU,), "failures": [], "raw": False}
    options |= more
    options["workloads"] = [
        work.model_copy(update={"duration_s": 10.0}) for work in options["workloads"]
    ]
    return RunFolder.open(make_run(path, **options))


def with_tables(
    folder: RunFolder, places: Callable[[Trial], dict[Place, float]], **more: Any
) -> RunFolder:
    """The same with the same table for each trial but for its places."""
    for trial in folder.trials:
        if seconds_by_place := places(trial):
            put(folder, trial, table(trial, seconds_by_place, **more).model_dump_json())
    return folder


def test_a_run_without_tables_has_no_cells(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run")
    assert hotspots.cells(folder) == hotspots.RunHotspots((), 0)
    assert hotspots.lines(folder) == []


def test_means_over_the_trials_that_went_well(tmp_path: Path) -> None:
    """Each trial weighs the same; a place that one of them has not counts as none there."""
    folder = folder_of(tmp_path / "run", failures=[(0, "native", CPU.key)])

    def places(trial: Trial) -> dict[Place, float]:
        if trial.environment != "native":
            return {}
        return {
            0: {WORK: 2.0},  # it failed
            1: {WORK: 0.9, CALL: 0.3},
            2: {WORK: 0.6},
            3: {},
        }[trial.block]

    (cell,) = hotspots.cells(with_tables(folder, places)).cells
    assert (cell.environment, cell.workload, cell.label) == ("native", CPU.key, NATIVE.label)
    assert (cell.trials, cell.cpus, cell.course) == (2, 2, None)
    assert cell.busy == pytest.approx(0.9)
    assert cell.groups == pytest.approx({"programs": 0.9})
    assert [(hotspot.object, hotspot.symbol) for hotspot in cell.hotspots] == [WORK[2:], CALL[2:]]
    assert [hotspot.cpus for hotspot in cell.hotspots] == pytest.approx([0.75, 0.15])
    assert cell.elsewhere == pytest.approx(0)


def test_what_is_in_no_row_is_told_as_a_share(tmp_path: Path) -> None:
    """Of rows that the table did not keep, and of those that are not told."""
    folder = folder_of(tmp_path / "run", blocks=1)
    many = {("programs", "p", "f", f"f{n:02}"): 0.02 * (n + 1) for n in range(20)}
    with_tables(folder, lambda trial: many, uncounted=5 * HZ)
    for cell in hotspots.cells(folder).cells:
        assert len(cell.hotspots) == hotspots.MOST_ROWS
        assert cell.hotspots[0].symbol == "f19"
        assert cell.busy == pytest.approx(sum(many.values()) + 0.5)
        assert cell.elsewhere == pytest.approx(sum(sorted(many.values())[:8]) + 0.5)
        in_rows = sum(hotspot.cpus for hotspot in cell.hotspots)
        assert in_rows + cell.elsewhere == pytest.approx(cell.busy)


def test_others_on_the_host_are_one_place(tmp_path: Path) -> None:
    """However many they are, they hide nothing."""
    folder = folder_of(tmp_path / "run", blocks=1)
    others: dict[Place, float] = {("others", f"p{n}", "", ""): 0.1 + n / 100 for n in range(20)}
    others["others", "p0", "kernel", ""] = 1.0
    with_tables(folder, lambda trial: others | {WORK: 0.5})
    for cell in hotspots.cells(folder).cells:
        elsewhere, work = cell.hotspots
        assert (elsewhere.group, elsewhere.program) == ("others", "p0, p19, p18, …")
        assert elsewhere.cpus == pytest.approx(sum(others.values()))
        assert work.object == WORK[2]
        assert work.cpus == pytest.approx(0.5)


def test_the_trial_that_is_shown_is_the_median_one(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=5)
    with_tables(folder, lambda trial: {WORK: 1.0}, over_time={"programs": [100] * 5 + [50] * 5})
    metric = next(metric.name for metric in CPU.metrics if metric.primary)
    for cell in hotspots.cells(folder).cells:
        mine = [t for t in folder.trials if t.environment == cell.environment]
        ordered = sorted(mine, key=lambda trial: float(str(trial.metrics[metric])))
        assert cell.course is not None
        assert (cell.course.trial, cell.course.median_of) == (ordered[2].trial, metric)
        assert cell.course.bin_s == pytest.approx(1.0)
        assert cell.course.groups["programs"] == pytest.approx([1.0] * 5 + [0.5] * 5)


def test_of_a_curve_the_middle_one_in_time_is_shown(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", workloads=(CURVE_WORKLOAD,))
    with_tables(folder, lambda trial: {WORK: 1.0}, over_time={"programs": [100] * 10})
    for cell in hotspots.cells(folder).cells:
        mine = [t.trial for t in folder.trials if t.environment == cell.environment]
        assert cell.course is not None
        assert (cell.course.trial, cell.course.median_of) == (mine[1], "")


def test_which_core_it_was(tmp_path: Path) -> None:
    """Means over the trials that tell; of groups that only some of them saw too."""
    folder = folder_of(tmp_path / "run", blocks=3)
    for trial in folder.trials:
        by_core = {
            0: {"programs": [900, 0, 100]},
            1: {"programs": [700], "vhost": [0, 200]},
            2: {},  # a table of an older run
        }[trial.block]
        put(folder, trial, table(trial, {WORK: 1.0}, by_core=by_core).model_dump_json())
    cell = hotspots.cells(folder).cells[0]
    assert cell.trials == 3
    assert cell.cores["programs"] == pytest.approx([0.8, 0.0, 0.05])
    assert cell.cores["vhost"] == pytest.approx([0.0, 0.1])
    assert [core for core, _ in cell.busiest] == [0, 1, 2]
    assert [busy for _, busy in cell.busiest] == pytest.approx([0.8, 0.1, 0.05])
    assert hotspots.core_words(cell) == (
        "0 0.80 (most of it the programs, 0.80), 1 0.10 (most of it vhost, 0.10), "
        "2 0.05 (most of it the programs, 0.05)"
    )
    assert f"  by core: {hotspots.core_words(cell)}" in hotspots.lines(folder)


def test_of_many_cores_the_busiest_are_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=1)
    by_core = {"programs": [10 * n for n in range(30)]}
    with_tables(folder, lambda trial: {WORK: 1.0}, by_core=by_core)
    cell = hotspots.cells(folder).cells[0]
    words = hotspots.core_words(cell)
    assert words.startswith("29 0.29 (most of it the programs, 0.29), 28 0.28 ")
    assert words.endswith(", 24 more")


def test_a_run_without_cores_says_nothing_of_them(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=1)
    with_tables(folder, lambda trial: {WORK: 1.0})
    assert not any(cell.cores for cell in hotspots.cells(folder).cells)
    assert not any("by core" in line for line in hotspots.lines(folder))


def test_cores_over_time_are_told(tmp_path: Path) -> None:
    """Of one trial, on the terminal too: a character is a part, and its height the share."""
    folder = folder_of(tmp_path / "run", blocks=1)
    shares = (0, 0.06, 0.2, 0.3, 0.55, 0.8, 0.95, 1.1)
    steps = [HZ * share for share in shares]
    courses: dict[tuple[int, str], list[float]] = {
        (0, "programs"): [HZ] * 8,
        (10, "programs"): steps,
        (10, "vhost"): [0] * 8,
    }
    for trial in folder.trials:
        length = (trial.end_ns - trial.start_ns) / 8e9
        scaled = {group: [round(n * length) for n in samples] for group, samples in courses.items()}
        symbols = table(trial, {WORK: 1.0}, {"programs": [HZ] * 8}, cores_over_time=scaled)
        put(folder, trial, symbols.model_dump_json())
    cell = hotspots.cells(folder).cells[0]
    assert cell.course is not None
    cores = cell.course.cores
    assert cores is not None
    assert (cores.parts, cores.busiest()) == (8, [0, 10])
    assert cores.busy(10) == pytest.approx(shares, abs=0.01)
    lines = hotspots.lines(folder)
    at = lines.index(f"  over 10 s of trial {cell.course.trial}, core by core:")
    assert lines[at + 1 : at + 3] == ["     0 |████████|", "    10 | ▁▂▃▅▇██|"]


def test_a_large_hosts_terminal_has_the_busiest(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=1)
    courses = {(core, "programs"): [core] * 10 for core in range(1, 257)}
    over = {"programs": [9] * 10}
    with_tables(folder, lambda trial: {WORK: 1.0}, over_time=over, cores_over_time=courses)
    lines = [line for line in hotspots.lines(folder) if line.endswith("|")]
    assert [line.split()[0] for line in lines[:5]] == ["252", "253", "254", "255", "256"]
    assert "    and 251 more" in hotspots.lines(folder)


def test_a_duet_is_told_by_partner(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", design="duet")
    cells = hotspots.cells(with_tables(folder, lambda trial: {WORK: 1.0})).cells
    others = [environment for environment in ENVIRONMENTS if environment is not NATIVE]
    labels = {cell.label for cell in cells}
    assert labels == {f"{NATIVE.label} beside {e.label}" for e in others} | {
        f"{e.label} beside {NATIVE.label}" for e in others
    }
    assert all(cell.trials == 4 for cell in cells)


def test_a_large_run_is_cut_and_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=1, workloads=WORKLOADS)
    with_tables(folder, lambda trial: {WORK: 1.0})
    many = len(ENVIRONMENTS) * len(WORKLOADS)
    run = hotspots.cells(folder, most=3)
    assert (len(run.cells), run.left_out) == (3, many - 3)
    assert f"Of {many} cells the first 3 are told" in hotspots.left_out_words(run)
    assert hotspots.cells(folder).left_out == 0


def test_the_terminal_has_the_first_places(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run")
    with_tables(folder, lambda trial: {WORK: 0.75, SLEEP: 0.1} if trial.environment == "vm" else {})
    done = commandkit.ullage("show", str(folder.path), "--details", environment={"NO_COLOR": "1"})
    vm = ENVIRONMENTS[-1].label
    assert f"{CPU.title}, {vm}: 0.85 of 2 CPUs of the host busy, mean of 4 trials" in done.stdout
    assert "  0.750 in the programs: sysbench in libm.so.6\n" in done.stdout
    assert "  0.100 in QEMU beside its vCPUs: qemu in kernel, do_sys_poll\n" in done.stdout
    brief = commandkit.ullage("show", str(folder.path), environment={"NO_COLOR": "1"})
    assert "libm.so.6" not in brief.stdout


def test_what_a_table_says_is_made_harmless(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", blocks=1)
    nasty = "\x1b[2J\u202e" + "x" * 500
    with_tables(folder, lambda trial: {(nasty, nasty, nasty, nasty): 1.0})
    text = "\n".join(hotspots.lines(folder))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) < 500


GOOD: dict[str, Any] = {"bin_ns": 10**9, "over_time": [{"group": "vcpu", "samples": [3] * 10}]}


def parts(*samples: Any, group: str = "vcpu") -> dict[str, Any]:
    return {"group": group, "samples": list(samples)}


@pytest.mark.parametrize(
    "fields",
    [
        {"over_time": [parts(-1, *[0] * 9)]},
        {"over_time": [parts(1 << 31, *[0] * 9)]},
        {"over_time": [parts(0.5, *[0] * 9)]},
        {"over_time": [parts(*[3] * 9)]},
        {"over_time": [parts(*[3] * 10), parts(*[3] * 11, group="others")]},
        {"over_time": [parts(*[3] * 10), parts(*[3] * 10)]},
        {"over_time": [parts()]},
        {"over_time": [parts(*[3] * 61)], "bin_ns": 10**10 // 61 + 1},
        {"over_time": [parts(*[3] * 10, group=f"g{n}") for n in range(33)]},
        {"bin_ns": 0},
        {"bin_ns": -(10**9)},
        {"bin_ns": 1},
        {"bin_ns": 1 << 62},
        {"end_ns": 0},
        {"by_core": [parts(-1)]},
        {"by_core": [parts()]},
        {"by_core": [parts(*[0] * 4097)]},
        {"by_core": [parts(1), parts(2)]},
        {"by_core": [parts(1, group=f"g{n}") for n in range(33)]},
        {"cores_over_time": [parts(*[3] * 9) | {"core": 0}]},
        {"cores_over_time": [parts(*[3] * 10) | {"core": 0}] * 2},
        {"cores_over_time": [parts(*[3] * 10) | {"core": 4096}]},
        {"cores_over_time": [parts(*[3] * 10) | {"core": n} for n in range(513)]},
    ],
    ids=[
        *("negative", "too many samples", "half a sample", "too few parts", "two lengths"),
        *("a group twice", "no parts", "too many parts", "too many groups", "parts of no length"),
        *("parts of negative length", "parts too short", "parts too long", "it ends before"),
        *("less than none", "no cores", "too many cores", "a group twice on cores"),
        *("too many groups on cores", "too few parts of a core", "a group twice on a core"),
        *("a core that there is none of", "too many courses"),
    ],
)
def test_a_series_that_is_none_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = folder_of(tmp_path / "run", blocks=1)
    trial = folder.trials[0]
    good = json.loads(table(trial, {WORK: 1.0}).model_dump_json()) | GOOD
    put(folder, trial, json.dumps(good))
    (cell,) = hotspots.cells(folder).cells
    assert cell.course is not None
    put(folder, trial, json.dumps(good | fields))
    with pytest.raises(UllageError) as caught:
        hotspots.cells(folder)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert f"trials/{trial.trial}/symbols.json" in caught.value.message


def test_the_page_on_causes_names_what_is_cut() -> None:
    docs = Path(__file__).parents[3] / "docs/guide/causes.md"
    assert f"The first {hotspots.MOST_CELLS} cells" in docs.read_text()
