"""Causes in threads, in a guest's own kernel, and in the functions that the CPUs were seen at."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.causes import causes as causewords
from ullage.analysis.causes import symbols
from ullage.analysis.comparison.model import Analysis, Causes
from ullage.analysis.details import details
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.perf.sampler import FILE
from ullage.report import page
from ullage.report.export import rows
from ullage.runs.reader import RunFolder
from ullage.runs.symbols import GUEST_FILE, SymbolRow, Symbols

CPU = WORKLOADS[0]
NATIVE, BOX, VM = ENVIRONMENTS[0], ENVIRONMENTS[1], ENVIRONMENTS[-1]
HZ = 99
Place = tuple[str, str, str]
Readings = Callable[
    [str, np.random.Generator], tuple[dict[str, dict[str, float]], dict[Place, float]]
]
"""Environment → what meters saw in a trial, and where its CPUs were seen, in shares of one."""


def noisy(rng: np.random.Generator, mean: float, sd: float = 0.1) -> float:
    return float(mean * np.exp(sd * rng.standard_normal()))


def folder_of(path: Path, readings: Readings, **more: Any) -> RunFolder:
    """A run whose VM is 6.9 times worse, with meters and tables of symbols."""
    options = {"workloads": (CPU,), "noise_sd": 0.05, "failures": [], "raw": False, **more}
    make_run(path, **options)
    rng = np.random.default_rng(5)
    journal = path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["event"] != "trial":
            continue
        event["meters"], places = readings(event["environment"], rng)
        for role in event["roles"]:
            role["usage"] = None
        if places:
            put(path / "trials" / event["trial"], event, places)
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return RunFolder.open(path)


def put(
    folder: Path, event: Mapping[str, Any], places: Mapping[Place, float], name: str = FILE
) -> None:
    """A table of samples, of programs that nobody asks about."""
    seconds = (event["end_ns"] - event["start_ns"]) / 1e9
    symbols = Symbols(
        hz=HZ,
        cpus=2,
        start_ns=event["start_ns"],
        end_ns=event["end_ns"],
        bound_ns=200,
        lost=0,
        rows=tuple(
            SymbolRow(
                group=group,
                program=f"thread-{number}",
                object=file,
                symbol=symbol,
                samples=round(share * HZ * seconds),
            )
            for number, ((group, file, symbol), share) in enumerate(places.items())
        ),
        rest=0,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(symbols.model_dump_json())


def causes_of(analysis: Analysis, environment: str = "vm") -> Causes:
    causes = next(c.causes for c in analysis.primary() if c.environment == environment)
    assert causes is not None
    return causes


def names(causes: Causes) -> list[str]:
    return [cause.counter for cause in causes.found]


def test_the_place_that_the_time_went_to(tmp_path: Path) -> None:
    """Emulation in QEMU; the guest's own code, and the programs', is the work and no cause."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        meters = {"guest": {"interrupts": 100.0}, "kernel": {}} if vm else {"kernel": {}}
        places: dict[Place, float] = (
            {
                ("vcpu", "qemu-system-x86_64", "tcg_gen_code"): noisy(rng, 0.4),
                ("vcpu", "generated code", ""): noisy(rng, 0.5),
                ("hypervisor", "kernel", "do_sys_poll"): noisy(rng, 0.1),
                ("others", "kernel", ""): noisy(rng, 0.5),
            }
            if vm
            else {
                ("programs", "sysbench", ""): noisy(rng, 0.9),
                ("programs", "kernel", "clear_page"): noisy(rng, 0.3),
                ("others", "kernel", ""): noisy(rng, 0.1),
            }
        )
        return meters, places

    folder = folder_of(tmp_path / "run", readings)
    analysis = overhead.analyse(folder)
    causes = causes_of(analysis)
    assert names(causes) == [
        "symbols.vcpu/qemu-system-x86_64/tcg_gen_code",
        "symbols.hypervisor/kernel/do_sys_poll",
    ]
    first, second = causes.found
    assert first.from_nothing
    assert first.difference_low < 0.4 < first.difference_high
    assert "vCPUs in qemu-system-x86_64, tcg_gen_code: " in causewords.cause_words(first)
    assert "% of a CPU against 0 %," in causewords.cause_words(first)
    assert causewords.change(first).endswith(" % of a CPU more")
    assert second.words == "QEMU beside its vCPUs in the host's kernel, do_sys_poll"
    html = page.render(folder, analysis)
    assert "symbols.vcpu/qemu-system-x86_64/tcg_gen_code" in html
    (text,) = [row["causes"] for row in rows(analysis) if row["verdict"] == "worse"]
    assert text == causewords.described(causes)
    facts = dict(next(d.facts for d in details(analysis) if d.comparison.causes is not None))
    assert facts["what changed with it"] == text
    assert Analysis.model_validate_json(analysis.model_dump_json()) == analysis


def test_beside_a_container_code_of_programs_is_compared(tmp_path: Path) -> None:
    """On one kernel both sides could be at every place: less of it is news too."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        return {}, {
            ("programs", "libc.so.6", "memcpy"): noisy(rng, 0.5 if vm else 0.1),
            ("programs", "kernel", "do_syscall_64"): noisy(rng, 0.05 if vm else 0.6),
        }

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    assert set(names(causes)) == {
        "symbols.programs/libc.so.6/memcpy",
        "symbols.programs/kernel/do_syscall_64",
    }
    assert {cause.difference > 0 for cause in causes.found} == {True, False}


def test_programs_of_a_guest_that_was_looked_into_are_compared(tmp_path: Path) -> None:
    """What its kernel does for them stands against what the host's does elsewhere."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        meters = {"guest": {"interrupts": 100.0}, "kernel": {}} if vm else {"kernel": {}}
        places: dict[Place, float] = {
            ("programs", "libc.so.6", "memcpy"): noisy(rng, 0.2),
            ("programs", "kernel", "clear_page"): noisy(rng, 0.5),
        }
        return meters, {("vcpu", "kernel (kvm)", "vmx_run"): noisy(rng, 0.9)} if vm else places

    folder = folder_of(tmp_path / "run", readings)
    outside = names(causes_of(overhead.analyse(folder)))
    assert outside == ["symbols.vcpu/kernel (kvm)/vmx_run"]
    rng = np.random.default_rng(6)
    for trial in folder.trials:
        if trial.environment == "vm":
            inside = {
                ("programs", "libc.so.6", "memcpy"): noisy(rng, 0.6),
                ("programs", "kernel", "clear_page"): noisy(rng, 0.1),
                ("kernel_threads", "kernel", "clear_page"): noisy(rng, 0.4),
            }
            event = trial.model_dump(include={"start_ns", "end_ns"})
            put(folder.path / "trials" / trial.trial, event, inside, GUEST_FILE)
    analysis = overhead.analyse(RunFolder.open(folder.path))
    causes = causes_of(analysis)
    words = {cause.words: cause.difference for cause in causes.found}
    assert words.pop("vCPUs in the host's kernel (kvm), vmx_run") > 0
    assert words.pop("the programs in libc.so.6, memcpy") == pytest.approx(0.4, rel=0.2)
    # Less is news too, as both were seen where they ran.
    assert words.pop("the programs in their kernel, clear_page") == pytest.approx(-0.4, rel=0.2)
    assert words == {}
    html = page.render(RunFolder.open(folder.path), analysis)
    assert "inside: " in html
    assert "of the guests busy" in html


def test_a_file_whose_functions_one_side_alone_tells_is_compared_as_a_whole(
    tmp_path: Path,
) -> None:
    """As beside Docker, whose copy of the image is not ours: how it was looked at is no cause."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        if environment != "vm":
            return {}, {
                ("programs", "nginx", "ngx_palloc"): noisy(rng, 0.1),
                ("programs", "nginx", "memcpy"): noisy(rng, 0.1),
                ("programs", "nginx", ""): noisy(rng, 0.1),
                ("programs", "libc.so.6", ""): noisy(rng, 0.1),
                ("programs", "libc.so.6", "poll"): noisy(rng, 0.2),
            }
        return {}, {
            ("programs", "nginx", ""): noisy(rng, 0.9),
            ("programs", "libc.so.6", ""): noisy(rng, 0.3),
        }

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    (nginx,) = causes.found
    assert (nginx.counter, nginx.words) == ("symbols.programs/nginx", "the programs in nginx")
    assert nginx.baseline_mean == pytest.approx(0.3, rel=0.2)
    assert causes.looked == 2


def test_functions_that_stand_with_their_file_are_not_nothing(tmp_path: Path) -> None:
    """Where there were too many, one that is absent may be among them; the kernel's never is."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        code: dict[Place, float] = {("programs", "mariadbd", "THD::init"): noisy(rng, 0.3)}
        code[("programs", "kernel", "clear_page")] = noisy(rng, 0.3)
        return {}, code if vm else {("programs", "mariadbd", "other"): noisy(rng, 0.3)}

    folder = folder_of(tmp_path / "run", readings)
    both = {"symbols.programs/mariadbd/THD::init", "symbols.programs/kernel/clear_page"}
    assert both <= {*names(causes_of(overhead.analyse(folder)))}
    for trial in folder.trials:
        file = folder.path / "trials" / trial.trial / FILE
        if trial.environment != "vm" and file.exists():
            file.write_text(json.dumps(json.loads(file.read_text()) | {"folded": 1}))
    causes = causes_of(overhead.analyse(RunFolder.open(folder.path)))
    assert {*names(causes)} == {
        "symbols.programs/mariadbd/other",  # it was seen, and is not at all there in the VM
        "symbols.programs/kernel/clear_page",
    }


def test_threads_and_the_guests_own_counters(tmp_path: Path) -> None:
    """QEMU's main loop, and interrupts in the guest; work that only moved is no cause."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        threads = {
            "vcpu": noisy(rng, 0.9) if vm else 0.0,
            "programs": 0.0 if vm else noisy(rng, 0.9),
            "hypervisor": noisy(rng, 0.12, 0.05) if vm else 0.0,
            "vcpu_waited": noisy(rng, 0.4) if vm else 0.0,
        }
        host = {"interrupts": noisy(rng, 1_000), "context_switches": noisy(rng, 90_000)}
        guest = {"interrupts": noisy(rng, 60_000), "context_switches": noisy(rng, 100)}
        meters = {"threads": threads, "kernel": host}
        return meters | ({"guest": guest} if vm else {}), {}

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    # Fewer context switches than the whole host had say nothing.
    assert names(causes) == ["guest.interrupts", "threads.hypervisor"]
    interrupts, loop = causes.found
    assert interrupts.words == "interrupts in the guest's own kernel (elsewhere the host's)"
    assert interrupts.baseline_mean == pytest.approx(1_000, rel=0.1)
    sentence = causewords.cause_words(loop)
    assert sentence.startswith("QEMU beside its vCPUs (main loop, disks, network): 11.7 % of a CPU")
    assert causewords.change(loop) == "11.7 % of a CPU more"
    assert causes.looked == 6  # the two of the host, of the guest, the loop, and where work was


def test_guests_on_both_sides_are_compared_both_ways(tmp_path: Path) -> None:
    """A guest against a guest: less is news, and so is waiting for a CPU."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        guest = {"page_faults": noisy(rng, 1_000 if vm else 400_000)}
        threads = {"vcpu_waited": noisy(rng, 0.5 if vm else 0.05)}
        return {"guest": guest, "threads": threads}, {}

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    assert names(causes) == ["guest.page_faults", "threads.vcpu_waited"]


def test_cpu_time_of_a_guests_kernel_against_the_hosts(tmp_path: Path) -> None:
    """The host tells shares of all its CPUs, a guest tells CPUs: of four, 5 % is a fifth of one."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        if environment == "vm":
            return {"guest": {"cpu_kernel": noisy(rng, 0.8, 0.02)}}, {}
        host = {"cpu_time": 8.0}
        return {"host": host, "kernel": {"window": 2.0, "cpu_kernel": noisy(rng, 0.05, 0.02)}}, {}

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    (kernel,) = (cause for cause in causes.found if cause.counter == "guest.cpu_kernel")
    assert kernel.ratio.low < 4 < kernel.ratio.high


def test_a_duet_has_places_of_its_own_instances_alone(tmp_path: Path) -> None:
    """A kernel's thread works for both halves; what a hypervisor's does is its own."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        return ({"guest": {"interrupts": 5.0}} if vm else {"kernel": {"interrupts": 9e6}}), {
            ("hypervisor", "kernel", "do_sys_poll"): noisy(rng, 0.3) if vm else 0.0,
            ("ksoftirqd", "kernel", "net_rx_action"): noisy(rng, 0.3 if vm else 0.01),
        }

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings, design="duet")))
    assert causes.looked == 1
    assert names(causes) == ["symbols.hypervisor/kernel/do_sys_poll"]


def test_where_nothing_changed_few_comparisons_name_a_place(tmp_path: Path) -> None:
    """At most one in twenty may, of places chosen by how often they were seen."""
    works = [CPU.model_copy(update={"key": f"work-{n}"}) for n in range(90)]
    truth = {("vm", work.key): 2.0 for work in works}

    def readings(environment: str, rng: np.random.Generator) -> Any:
        places = {("programs", "kernel", f"f{n}"): noisy(rng, 0.02 * n, 0.4) for n in range(1, 30)}
        threads = {n: noisy(rng, 0.1, 0.3) for n in ("hypervisor", "vhost", "kworker", "others")}
        return {"threads": threads}, places

    folder = folder_of(
        tmp_path / "run",
        readings,
        environments=(NATIVE, VM),
        workloads=works,
        truth=truth,
        blocks=8,
        finished=False,
    )
    all_causes = [c.causes for c in overhead.analyse(folder).primary() if c.causes is not None]
    assert len(all_causes) > 80
    assert all(causes.looked == symbols.MOST + 4 for causes in all_causes)
    assert sum(causes.differing > 0 for causes in all_causes) / len(all_causes) <= 0.05


def test_a_place_that_may_be_among_the_small_rows_is_unknown(tmp_path: Path) -> None:
    """Not nothing: of a table with more rows than it keeps, what is absent was not looked at."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        share = {("hypervisor", "kernel", "do_sys_poll"): noisy(rng, 0.3)} if vm else {}
        return {}, share or {("programs", "kernel", "f"): noisy(rng, 0.3)}

    folder = folder_of(tmp_path / "run", readings)
    name = "symbols.hypervisor/kernel/do_sys_poll"
    assert name in names(causes_of(overhead.analyse(folder)))
    for trial in folder.trials:
        file = folder.path / "trials" / trial.trial / FILE
        if trial.environment != "vm" and file.exists():
            file.write_text(json.dumps(json.loads(file.read_text()) | {"rest": 1}))
    assert name not in names(causes_of(overhead.analyse(RunFolder.open(folder.path))))


def test_programs_with_kernel_in_their_names_are_none(tmp_path: Path) -> None:
    """Beside a guest, their code is the work."""

    def readings(environment: str, rng: np.random.Generator) -> Any:
        vm = environment == "vm"
        places = {
            ("programs", file, "f"): noisy(rng, 0.5 if vm else 0.1)
            for file in ("kernelbench", "kernel.so", "kernel", "kernel (ext4)")
        }
        return {"guest": {"interrupts": 5.0}} if vm else {}, places

    causes = causes_of(overhead.analyse(folder_of(tmp_path / "run", readings)))
    assert set(names(causes)) == {
        "symbols.programs/kernel/f",
        "symbols.programs/kernel (ext4)/f",
    }
    assert {cause.words for cause in causes.found} == {
        "the programs in the host's kernel, f",
        "the programs in the host's kernel (ext4), f",
    }
    assert symbols._words(("programs", "libkernel.so", "")) == "the programs in libkernel.so"


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": 9}', "x" * (symbols._MOST_BYTES + 1), "\udc80"],
    ids=["empty", "of nothing", "another format", "too long", "no text"],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    def readings(environment: str, rng: np.random.Generator) -> Any:
        return {}, {("programs", "kernel", "f"): 0.5}

    folder = folder_of(tmp_path / "run", readings, blocks=6)
    trial = next(trial for trial in folder.trials if trial.environment == "vm")
    file = folder.path / "trials" / trial.trial / FILE
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UllageError) as caught:
        overhead.analyse(RunFolder.open(folder.path))
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert f"trials/{trial.trial}/symbols.json" in caught.value.message


def test_what_a_table_says_is_made_harmless(tmp_path: Path) -> None:
    def readings(environment: str, rng: np.random.Generator) -> Any:
        share = noisy(rng, 0.5) if environment == "vm" else 0.0
        return {}, {("programs", "\x1b[2J<b>x", "\u202egnp"): share}

    folder = folder_of(tmp_path / "run", readings)
    (cause,) = causes_of(overhead.analyse(folder)).found
    for text in (cause.words, cause.counter):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<b>x" not in page.render(folder, overhead.analyse(folder))
