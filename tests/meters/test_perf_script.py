"""What `perf script` prints: folded by group, and survived whatever is in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.meters.perf.mappings import OwnFiles
from ullage.meters.perf.script import MOST_ROWS, SampleKey, ScriptReader, TrialWindow
from ullage.meters.process_groups import ProcessGroup
from ullage.runs.symbols import (
    LEAST_BIN_NS,
    MOST_BINS,
    MOST_CORES,
    MOST_COURSES,
    OTHER_END,
    GroupOverTime,
    SymbolRow,
    Symbols,
)

OURS = 4000
NO_FILES = OwnFiles(None)
KERNEL = "ffffffff811bb98c"


def forked(child: int, parent: int) -> str:
    event = f"PERF_RECORD_FORK({child}:{child}):({parent}:{parent})"
    return f"  sh {parent}/{parent} [000] 0.000000000: {event}"


def sample(
    comm: str,
    pid: int,
    at_s: float,
    place: str = f"{KERNEL} do_idle ([kernel.kallsyms])",
    core: int = 0,
) -> str:
    return f"{comm:>16} {pid:>5}/{pid:<5} [{core:03}] {at_s:12.9f}:  {place}"


def folded(
    *lines: str,
    roots: dict[int, ProcessGroup] | None = None,
    window: tuple[int, int] = (0, 100),
    files: OwnFiles = NO_FILES,
) -> tuple[ScriptReader, TrialWindow]:
    """The lines in one window, in seconds."""
    counted = TrialWindow(window[0] * 10**9, window[1] * 10**9, roots or {})
    folder = ScriptReader([counted], OURS, files)
    for line in lines:
        folder.take(line + "\n")
    return folder, counted


def rows(window: TrialWindow) -> list[tuple[str, str, str, str, int]]:
    return [(r.group, r.program, r.object, r.symbol, r.samples) for r in window.table().rows]


def test_who_it_is_by_descent() -> None:
    """What an agent started is a program, however deep; a hypervisor's threads have names."""
    _, window = folded(
        forked(20, 4000),
        forked(21, 20),
        forked(22, 21),
        forked(31, 2),
        sample("CPU 0/KVM", 10, 1),
        sample("CPU 11/KVM", 10, 2),
        sample("vhost-10", 10, 3),
        sample("qemu-system-x86", 10, 4, "5643d1 qht_lookup (/usr/bin/qemu-system-x86_64)"),
        sample("nginx: CPU 0/KVM", 22, 5, "7f01 [unknown] (/usr/lib/x/libc.so.6)"),
        sample("ullage-agent", 20, 6),
        sample("kworker/0:1-ev", 31, 7),
        sample("ullage", 4000, 8, "7f01 PyEval (/usr/lib/libpython3.11.so.1.0)"),
        sample("stranger", 99, 9, "7f01 secret (/home/someone/stranger)"),
        roots={10: "hypervisor", 20: "agent"},
    )
    assert sorted(rows(window)) == sorted(
        [
            ("vcpu", "CPU N/KVM", "kernel", "do_idle", 2),
            ("vhost", "vhost-N", "kernel", "do_idle", 1),
            ("hypervisor", "qemu-system-xN", "qemu-system-x86_64", "qht_lookup", 1),
            ("programs", "nginx: CPU N/KVM", "libc.so.6", "", 1),
            ("agent", "ullage-agent", "kernel", "do_idle", 1),
            ("kworker", "kworker", "kernel", "do_idle", 1),
            ("controller", "ullage", "libpython3.11.so.1.0", "PyEval", 1),
            ("others", "stranger", "", "", 1),
        ]
    )


def test_objects() -> None:
    """Modules of the kernel, code made at run time, copies that a compiler made of functions."""
    places = {
        f"{KERNEL} vmx_vcpu_run.constprop.0 ([kvm_intel])": ("kernel (kvm_intel)", "vmx_vcpu_run"),
        f"{KERNEL} __schedule.isra.3.cold ([kernel.kallsyms])": ("kernel", "__schedule"),
        f"{KERNEL} [unknown] ([unknown])": ("kernel", ""),
        "7f12 [unknown] (/tmp/perf-123.map)": ("generated code", ""),
        "7f12 [unknown] (/memfd:jit (deleted))": ("generated code", ""),
        "7f12 [unknown] ([vdso])": ("[vdso]", ""),
        "7f12 [unknown] ([unknown])": ("unknown", ""),
        "7f12 [unknown] (anon_inode:x)": ("generated code", ""),
        "7f12 operator (int) (/opt/a (b)/tool (deleted))": ("tool", "operator (int)"),
    }
    for place, (file, symbol) in places.items():
        _, window = folded(sample("x", 10, 1, place), roots={10: "programs"})
        assert rows(window) == [("programs", "x", file, symbol, 1)]


def test_a_window_is_cut_exactly() -> None:
    """The first instant counts, the last does not; each window takes its own."""
    first, second = TrialWindow(10**9, 2 * 10**9, {}), TrialWindow(2 * 10**9, 3 * 10**9, {})
    folder = ScriptReader([first, second], OURS, NO_FILES)
    for at in ("0.999999999", "1.000000000", "1.999999999", "2.000000000", "3.000000000"):
        folder.take(f"x 7/7 [000] {at}: {KERNEL} f ([kernel.kallsyms])")
    assert (first.count.total(), second.count.total()) == (2, 1)


def test_the_same_samples_over_time() -> None:
    """By group, in parts of half a second; the last instant of a part is its own."""
    window = TrialWindow(10**9, 2 * 10**9, {10: "hypervisor"})
    folder = ScriptReader([window], OURS, NO_FILES)
    for comm, pid, at in [
        ("CPU 0/KVM", 10, 1.0),
        ("CPU 1/KVM", 10, 1.499999999),
        ("CPU 0/KVM", 10, 1.5),
        ("stranger", 99, 1.999999999),
        ("stranger", 99, 2.0),
    ]:
        folder.take(sample(comm, pid, at))
    assert window.bin_ns == 500_000_000
    assert [(part.group, part.samples) for part in window.over_time()] == [
        ("others", (0, 1)),
        ("vcpu", (2, 1)),
    ]


def test_the_same_samples_by_core() -> None:
    """Up to the last core that a group was seen on; idle ones, and those outside, do not count."""
    _, window = folded(
        sample("CPU 0/KVM", 10, 1, core=2),
        sample("CPU 1/KVM", 10, 2, core=0),
        sample("CPU 1/KVM", 10, 3, core=2),
        sample("stranger", 99, 4, core=1),
        sample("stranger", 99, 5, core=MOST_CORES),
        sample("stranger", 99, 200, core=1),
        sample("swapper", 0, 6, core=3),
        roots={10: "hypervisor"},
    )
    assert [(part.group, part.samples) for part in window.by_core()] == [
        ("others", (0, 1)),
        ("vcpu", (1, 0, 2)),
    ]


TOOL = "/usr/bin/tool"


def mapping(pid: int, file: Path, *, at_s: float = 0, inode: int | None = None) -> str:
    """As perf tells it: all of the file, at 0x10000."""
    status = file.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    where = f"[0x10000(0x8000) @ 0 {device} {inode or status.st_ino} 0]: r-xp {TOOL}"
    return f"  sh {pid}/{pid} [001] {at_s:12.9f}: PERF_RECORD_MMAP2 {pid}/{pid}: {where}"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A program in a root of its own, and where its function `work` begins."""
    root = tmp_path_factory.mktemp("root")
    file = root / TOOL.lstrip("/")
    file.parent.mkdir(parents=True)
    (root / "x.c").write_text("int work(int n) { return n + 1; }\n")
    argv = ["gcc", "-O0", "-shared", "-fPIC", str(root / "x.c"), "-o", str(file)]
    subprocess.run(argv, check=True)
    symbols = subprocess.run(["nm", str(file)], check=True, capture_output=True, text=True).stdout
    (address,) = (row.split()[0] for row in symbols.splitlines() if row.endswith(" work"))
    return file, int(address, 16)


def test_functions_of_the_images_own_files(tool: tuple[Path, int]) -> None:
    """By descent too, until another program is run; of programs alone, and never for another file
    under that path."""
    file, offset = tool
    inside = f"{0x10000 + offset:x} [unknown] ({TOOL})"
    files = OwnFiles(file.parents[2])
    _, window = folded(
        mapping(20, file),
        forked(21, 20),
        forked(22, 20),
        "  sh 22/22 [000] 0.000000000: PERF_RECORD_COMM exec: y:22/22",
        mapping(23, file, inode=1),
        mapping(30, file),
        mapping(99, file),
        sample("a", 20, 1, inside),
        sample("b", 21, 2, inside),
        sample("c", 22, 3, inside),
        sample("d", 23, 4, inside),
        sample("e", 20, 5, f"20000 [unknown] ({TOOL})"),
        sample("f", 20, 6, inside.replace(TOOL, "/usr/bin/other")),
        sample("g", 20, 7, inside.replace("[unknown]", "told")),
        sample("agent", 30, 8, inside),
        sample("stranger", 99, 9, inside),
        roots={20: "programs", 23: "programs", 30: "agent"},
        files=files,
    )
    by_program = {program: (file, symbol) for _, program, file, symbol, _ in rows(window)}
    assert by_program == {
        "a": ("tool", "work"),
        "b": ("tool", "work"),
        "c": ("tool", ""),
        "d": ("tool", ""),
        "e": ("tool", ""),
        "f": ("other", ""),
        "g": ("tool", "told"),
        "agent": ("tool", ""),
        "stranger": ("", ""),
    }


@pytest.mark.parametrize("device", ["ffffffff:00", "00:ffffffff", "1000:00", "00:100000"])
def test_a_device_that_no_kernel_has_breaks_nothing(device: str, tool: tuple[Path, int]) -> None:
    """A file's name, which may hold a line end and the like of this, is its program's own."""
    event = f"PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 {device} 1 0]: r-xp /usr/bin/tool"
    line = f"               x     7/7     [000]     1.000000000: {event}"
    folder, window = folded(line, roots={7: "agent"}, files=OwnFiles(tool[0].parent))
    assert (window.table().rows, folder.unread) == ((), 0)


def test_many_functions_take_the_place_of_no_other_row() -> None:
    """The rarest stand with their files; a function of the kernel or of QEMU never does."""
    window = TrialWindow(0, 10**12, {})
    for n in range(MOST_ROWS + 20):
        for _ in range(1 + n // 100):
            window.take(("programs", "p", "lib", f"f{n:03}"), 0, 0)
    others: list[SampleKey] = [
        ("vhost", "v", "kernel", "g"),
        ("programs", "p", "kernel (kvm)", "h"),
    ]
    for key in others:
        window.take(key, 0, 0)
    table = window.table()
    named = [row.symbol for row in table.rows if row.object == "lib" and row.symbol]
    (lib,) = (row for row in table.rows if row.object == "lib" and not row.symbol)
    assert {(row.group, row.program, row.object, row.symbol) for row in table.rows} >= {*others}
    assert (len(table.rows), table.unlisted) == (MOST_ROWS, 0)
    assert lib.samples == table.folded == MOST_ROWS + 20 - len(named)
    assert {f"f{n:03}" for n in range(100, 120)} <= {*named}


def test_a_function_stands_with_its_file_in_all_threads_or_in_none() -> None:
    """What is left of it would be compared as if it were all."""
    window = TrialWindow(0, 10**12, {})
    for name, samples in (("often", 60), ("seldom", 1)):
        for _ in range(samples):
            window.take(("programs", name, "lib", "work"), 0, 0)
    for n in range(MOST_ROWS):
        for _ in range(2):
            window.take(("programs", "p", "lib", f"f{n:03}"), 0, 0)
    table = window.table()
    assert {row.program: row.samples for row in table.rows if row.symbol == "work"} == {
        "often": 60,
        "seldom": 1,
    }
    assert (len(table.rows), table.unlisted) == (MOST_ROWS, 0)


@pytest.mark.parametrize(
    ("length_ns", "parts"),
    [(1, 1), (999_999_999, 1), (10**9, 2), (1_700_000_001, 3), (30 * 10**9, 60), (10**12, 60)],
)
def test_parts_of_a_trial(length_ns: int, parts: int) -> None:
    """As many as are half a second long, 60 at most; the last instant is in the last of them."""
    window = TrialWindow(7, 7 + length_ns, {})
    folder = ScriptReader([window], OURS, NO_FILES)
    last = 7 + length_ns - 1
    folder.take(f"x 7/7 [000] {last // 10**9}.{last % 10**9:09}: {KERNEL} f ([kernel.kallsyms])")
    ((_, samples),) = [(part.group, part.samples) for part in window.over_time()]
    assert samples == (0,) * (parts - 1) + (1,)


def courses(window: TrialWindow) -> dict[tuple[int, str], tuple[int, ...]]:
    return {(part.core, part.group): part.samples for part in window.cores_over_time()}


def test_the_same_samples_by_core_and_time() -> None:
    """What works at the other end is told apart there, but for its agent."""
    roots: dict[int, ProcessGroup] = {10: "hypervisor", 20: "agent", 30: "agent", 40: "hypervisor"}
    window = TrialWindow(10**9, 2 * 10**9, roots, frozenset({30, 40}))
    folder = ScriptReader([window], OURS, NO_FILES)
    for line in (
        forked(21, 20),
        forked(31, 30),
        sample("nginx", 21, 1.0, core=0),
        sample("nginx", 21, 1.75, core=0),
        sample("viewers", 31, 1.25, core=1),
        sample("CPU 0/KVM", 40, 1.3, core=1),
        sample("ullage-agent", 30, 1.5, core=1),
        sample("CPU 0/KVM", 10, 1.9, core=1),
        sample("stranger", 99, 1.9, core=MOST_CORES),
    ):
        folder.take(line)
    assert courses(window) == {
        (0, "programs"): (1, 1),
        (1, OTHER_END): (2, 0),
        (1, "agent"): (0, 1),
        (1, "vcpu"): (0, 1),
    }
    assert {(part.group, part.samples) for part in window.over_time()} == {
        ("agent", (0, 1)),
        ("others", (0, 1)),
        ("programs", (2, 1)),
        ("vcpu", (1, 1)),
    }


def test_of_a_large_host_the_busiest_cores_are_kept_whole() -> None:
    """However many groups work on them: what has no course of its own is one more."""
    groups: list[ProcessGroup] = ["programs", "kworker", "ksoftirqd", "others"]
    window = TrialWindow(0, 60 * 10**9, {})
    for core in range(MOST_COURSES + 40):
        for number, group in enumerate(groups):
            for _ in range(1 + (core + 1) // (number + 1)):
                window.take((group, "p", "kernel", "f"), 10**9 * (core % 60), core)
    parts_by_core = courses(window)
    cores = {core for core, _ in parts_by_core}
    assert cores == {*range(40, MOST_COURSES + 40)}
    assert len(parts_by_core) == 2 * MOST_COURSES
    assert sum(not group for _, group in parts_by_core) == MOST_COURSES
    whole = {
        core: sum(sum(s) for (c, _), s in parts_by_core.items() if c == core) for core in cores
    }
    by_core = window.by_core()
    assert whole == {core: sum(part.samples[core] for part in by_core) for core in cores}
    assert sum(map(len, parts_by_core.values())) <= 2 * MOST_COURSES * MOST_BINS


def symbols_of(
    window: TrialWindow, *, rows: tuple[SymbolRow, ...] = (), over: tuple[GroupOverTime, ...]
) -> Symbols:
    return Symbols(
        hz=49,
        cpus=2,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        bound_ns=0,
        lost=0,
        rows=rows,
        rest=0,
        bin_ns=window.bin_ns,
        over_time=over,
        by_core=window.by_core(),
        cores_over_time=window.cores_over_time(),
    )


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**14),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["x", "kworker/0"]))),
)
def test_a_table_takes_what_a_window_counted(
    start: int, length: int, samples: list[tuple[float, str]]
) -> None:
    """Parts are equal, none too short, and have the very samples of the rows."""
    window = TrialWindow(start, start + length, {})
    folder = ScriptReader([window], OURS, NO_FILES)
    folder.take(forked(31, 2))
    for share, comm in samples:
        at = start + min(int(share * length), length - 1)
        pid = 31 if comm != "x" else 7
        folder.take(f"{comm} {pid}/{pid} [000] {at // 10**9}.{at % 10**9:09}: {KERNEL} f ([x])")
    summary = window.table()
    listed, unlisted = summary.rows, summary.unlisted
    table = symbols_of(window, rows=listed, over=window.over_time())
    assert Symbols.model_validate_json(table.model_dump_json()) == table
    assert unlisted == 0
    by_core = {part.group: sum(part.samples) for part in table.by_core}
    assert by_core == {part.group: sum(part.samples) for part in table.over_time}
    assert by_core == {part.group: sum(part.samples) for part in table.cores_over_time}
    for course in table.over_time:
        mine = sum(row.samples for row in table.rows if row.group == course.group)
        assert sum(course.samples) == mine
        assert len(course.samples) <= MOST_BINS
    missing = (
        window.bin_ns * max(len(e.samples) for e in table.over_time) - length if samples else 0
    )
    assert 0 <= missing < MOST_BINS
    assert window.bin_ns >= min(length, LEAST_BIN_NS)


def test_idle_is_nobody_and_what_was_lost_is_said() -> None:
    folder, window = folded(
        sample("swapper", 0, 1),
        "  x 7/7 [000] 1.000000000: PERF_RECORD_LOST lost 17",
        "  x 7/7 [000] 1.000000000: PERF_RECORD_COMM exec: y:7/7",
        "garbage",
        "",
        "  x 7/7 [000] 1.000000000: garbage",
    )
    assert rows(window) == []
    assert folder.lost == 17
    assert folder.unread == 2


def test_the_last_record_is_remembered() -> None:
    """In a window or not; what is none does not count."""
    folder, _ = folded(
        sample("x", 7, 150),
        "  x 7/7 [000] 160.000000001: PERF_RECORD_EXIT(7:7):(1:1)",
        "  x 7/7 [000] 170.000000000: garbage",
        sample("swapper", 0, 140),
    )
    assert folder.latest_ns == 160 * 10**9 + 1


def test_a_family_without_an_end_is_given_up() -> None:
    _, window = folded(forked(7, 8), forked(8, 7), sample("x", 7, 1))
    assert rows(window) == [("others", "x", "kernel", "", 1)]


def test_names_are_made_harmless_and_short() -> None:
    _, window = folded(
        sample("\x1b[2J" + "é" * 90, 10, 1, "7f12 \u202e" + "s" * 999 + " (/a/" + "o" * 999 + ")"),
        roots={10: "programs"},
    )
    ((_, program, file, symbol, _),) = rows(window)
    assert "\x1b" not in program
    assert "\u202e" not in symbol
    assert max(map(len, (program, file, symbol))) < 130


def test_ever_new_names_are_no_more_than_a_table_holds() -> None:
    lines = [sample("x", 10, 1, f"7f12 f{'ab'[n % 2]}{n} (/lib/x)") for n in range(6000)]
    _, window = folded(*lines, roots={10: "programs"})
    summary = window.table()
    listed, unlisted = summary.rows, summary.unlisted
    assert len(listed) <= MOST_ROWS
    assert len(window.count) <= 5001
    assert unlisted + sum(row.samples for row in listed) == 6000
    assert [sum(part.samples) for part in window.over_time()] == [6000]


LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.builds(
            lambda comm, pid, at, event: f"{comm} {pid}/{pid} [000] {at}.000000000: {event}",
            st.text(max_size=16),
            st.integers(-9, 10**12),
            st.integers(0, 10**12),
            st.one_of(st.text(max_size=40), st.just(f"{KERNEL} f ([kernel.kallsyms])")),
        ),
    ),
    max_size=20,
)


@given(LINES)
def test_no_line_breaks_it(lines: list[str]) -> None:
    folder, window = folded(*lines, roots={7: "hypervisor"})
    summary = window.table()
    listed, unlisted = summary.rows, summary.unlisted
    assert unlisted == 0
    assert window.count.total() <= len(lines)
    assert sum(row.samples for row in listed) == window.count.total()
    assert folder.lost >= 0
