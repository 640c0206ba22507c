"""CONTRIBUTING's worked examples, followed to the letter in a copy of the package."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import containerkit
from tests.support import patient
from ullage.common.registry import UNITS
from ullage.host import leftovers
from ullage.runs.reader import RunFolder

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()

UNITS_LISTED = """
import json
from ullage import environments, meters, workloads
from ullage.meters import energy

files = [package.__file__ for package in (workloads, environments, meters, energy)]
names = [workloads.names(), environments.names(), [meter.name for meter in meters.METERS]]
print(json.dumps([files, [*names, [meter.name for meter in energy.ENERGY_METERS]]]))
"""
WORKLOAD_RUN = """
import json, sys
from pathlib import Path
from tests.workloads.workload_runs import checked, run
from ullage import workloads

workload = workloads.get("openssl-digest")
parameters = workload.parameters_model(digest="sha512", block_size="8KiB")
print(json.dumps(checked(workload, parameters, run(workload, parameters, Path(sys.argv[1])))))
"""
GARBAGE = """
from ullage import workloads
from ullage.workloads.base import InvalidTrialError, Output

workload = workloads.get("openssl-digest")
half = ("+H:16384\\n+F:1:sha256:1.00", "+DT:sha256:1:16384")
for stdout, stderr in (("", ""), ("\\0", "nan"), half):
    try:
        workload.check(workload.parameters_model(), {"main": Output(0, None, stdout, stderr, 1.0)})
    except InvalidTrialError as error:
        print("refused:", error)
"""
PROVIDER_SEES = """
import asyncio
from dataclasses import replace
from tests.environments import containerkit as kit
from ullage import environments
from ullage.common import errors
from ullage.host import leftovers

Unshare = environments.get("unshare")

def unshare(**options):
    return Unshare(Unshare.options_model(**options))

async def sees_what_it_was_given():
    async with kit.running(unshare(time=True)) as run:
        spec = replace(run.spec(), cpu_ids=(1,), cpu_quota=0.5)
        instance = await run.create(spec)
        facts = instance.agent.facts
        assert facts["cpus_allowed"] == [1]
        assert facts["cpu_quota"] == 0.5
        assert facts["memory_limit_bytes"] == spec.memory_bytes
        assert facts["hostname"] == spec.name
        first, text = await kit.sh(instance, "cat /proc/1/comm; ! touch /here")
        assert (first.status, text.split()[0]) == (0, "ullage-keeper")
        assert "Read-only file system" in text
        written, text = await kit.sh(instance, "echo x > /data/file && touch /dev/shm/unshare")
        assert (written.status, text) == (0, "")
        assert (spec.data_dir / "file").read_text() == "x\\n"
        _, devices = await kit.sh(instance, "cat /proc/net/dev")
        assert "eth0:" in devices
        alone = await run.create(replace(run.spec("c-1"), network=None))
        _, devices = await kit.sh(alone, "cat /proc/net/dev")
        assert devices.count(":") == 1 and "lo:" in devices

async def leaves_nothing_when_it_fails():
    async with kit.running(unshare()) as run:
        for wrong, kind in (
            ({"agent": run.spec().agent / "nowhere"}, errors.INSTANCE_NOT_STARTED),
            ({"cpu_ids": (0, 0)}, errors.LIMIT_NOT_APPLIED),
        ):
            try:
                await run.create(replace(run.spec(), **wrong))
            except errors.UllageError as error:
                assert error.kind is kind, error
            assert kit.leftovers(run.tag) == []
        assert run.instances == []

async def is_cleaned_when_its_controller_was_killed():
    tag = await asyncio.to_thread(kit.tag_of_a_killed_controller, "unshare")
    remaining = leftovers.find(tag)
    assert {"cgroup", "netns", "state", "data"} <= {one.kind for one in remaining}
    assert leftovers.remove(remaining) == []
    assert leftovers.find(tag) == []

for scenario in (
    sees_what_it_was_given(),
    leaves_nothing_when_it_fails(),
    is_cleaned_when_its_controller_was_killed(),
    kit.stands_still_when_frozen(unshare()),
    kit.memory_limit_bites(unshare()),
    kit.two_stand_side_by_side(unshare()),
    kit.dies_and_is_destroyed_twice(unshare()),
):
    asyncio.run(scenario)
    print("passed:", scenario.__name__)
"""
METER_SEES = """
import json, time
from ullage.meters import METERS, metered

began = time.monotonic()
with metered() as seen:
    for _ in range(997):
        time.sleep(1e-6)
print(json.dumps([time.monotonic() - began, seen["switches"]]))
"""
ENERGY_METER_SEES = """
import sys
from pathlib import Path
from ullage.common import errors
from ullage.meters.energy import ENERGY_METERS
from ullage.meters.energy.base import FaultError

top = Path(sys.argv[1])
kind = {meter.name: meter for meter in ENERGY_METERS}["acpi-power"]
meter = kind(kind.Options(hwmon=str(top)))

def refused():
    try:
        meter.open()
    except errors.UllageError as error:
        return error.kind

assert refused() is errors.ENERGY_METER_ABSENT
for number, name in ((0, "amdgpu"), (1, "power_meter")):
    device = top / f"hwmon{number}/device"
    device.mkdir(parents=True)
    (device / "name").write_text(name + chr(10))
    (device / "power1_average").write_text("285467000" + chr(10))
(channel,) = meter.open()
assert (channel.scope, channel.source) == ("wall", str(device / "power1_average"))
print(meter.read())
(device / "power1_average").write_text("-1" + chr(10))
assert refused() is errors.ENERGY_METER_BAD_ANSWER
(device / "power1_average").unlink()
try:
    meter.read()
except FaultError as fault:
    print(fault.code)
meter.close()
"""
PLAN = """\
name: contributed
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  bare: {provider: unshare, vary: {time: [false, true]}}
workloads:
  - {name: command, argv: ["sleep", "0.02"]}
  - {name: provisioning, limit_s: 60, vary: {count: [1, 2]}}
blocks: {min: 2, max: 2}
"""
ELASTIC_PLAN = """\
name: contributed
baseline: bare
room: 1
environments:
  bare: {provider: unshare}
arrivals: {kind: uniform, rate: 1, viewers: 2}
generators: {number: 1, provider: unshare}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with every worked example added: its file, and its line in the list."""
    place = tmp_path_factory.mktemp("contributing")
    ignored = shutil.ignore_patterns("__pycache__", "bin")
    shutil.copytree(ROOT / "ullage", place / "ullage", ignore=ignored)
    for unit in ("a workload", "a provider", "a meter", "an energy meter"):
        follow(GUIDE.partition(f"## Add {unit}\n")[2].partition("\n## ")[0], place)
    return place


def follow(section: str, place: Path) -> None:
    """Save the section's file, and add its line to the list, where the section says."""
    ((file, code),) = re.findall(r"`([^`]+)`:\n\n```python\n(.*?)```", section, re.S)
    ((listed, where, added),) = re.findall(
        r"Add its line to `([A-Z_]+)`, ([^\n]*):\n\n```\n([^\n]*)\n```", section
    )
    assert not (place / file).exists()
    (place / file).write_text(code)
    (package,) = re.findall(r"one line in the list of\s+`([^`]+)`", section)
    lines = (place / package).read_text().split("\n")
    (first,) = (n for n, line in enumerate(lines, 1) if line.startswith(f"{listed}: "))
    last = lines.index(")", first)
    units = [*lines[first:last], added]
    if where == "in the order of the alphabet, by the file":
        units.sort(key=lambda line: line.split(".")[-2].strip(' "'))
    else:
        assert where == "at the end"
    lines[first:last] = units
    (place / package).write_text("\n".join(lines))


def python(copy: Path, *arguments: str, timeout_s: float = 250) -> str:
    """Run Python with the copy in front of everything else."""
    path = os.pathsep.join([str(copy), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def section_of(page: str, name: str) -> str:
    return page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_the_examples_are_listed(copy: Path) -> None:
    files, (workloads, providers, meters, energy_meters) = json.loads(
        python(copy, "-c", UNITS_LISTED)
    )
    assert all(Path(file).is_relative_to(copy) for file in files)
    assert "openssl-digest" in workloads
    assert providers[-1] == "unshare"
    assert "switches" in meters
    assert energy_meters[-1] == "acpi-power"


def test_their_docs_are_generated(copy: Path) -> None:
    python(copy, "-m", "scripts.docs_reference")
    reference = copy / "docs/reference"
    workload = (reference / "workloads/openssl-digest.md").read_text()
    assert "(workloads/openssl-digest.md)" in (reference / "workloads.md").read_text()
    assert "`openssl speed`" in workload
    assert "| `digest` | `sha256`, `sha512` | `sha256` | the hash function |" in workload
    assert "| `throughput` *primary* | B/s | higher |" in workload
    provider = section_of((reference / "providers.md").read_text(), "unshare")
    assert "a container without a runtime" in provider
    assert "| `time` | true or false | `false` | a time namespace too |" in provider
    meter = section_of((reference / "meters.md").read_text(), "switches")
    assert "| `context_switches` | 1/s | From one task to another. |" in meter
    energy_meter = section_of((reference / "energy-meters.md").read_text(), "acpi-power")
    assert "| `hwmon` | text | `/sys/class/hwmon` |" in energy_meter


def test_they_keep_the_house_style(copy: Path) -> None:
    units = ("workloads/cpu/openssl_digest", "environments/unshare", "meters/switches")
    files = [str(copy / f"ullage/{name}.py") for name in (*units, "meters/energy/acpi_power")]
    config = f"--config={ROOT / 'pyproject.toml'}"
    python(copy, "-m", "ruff", "check", config, *files)
    python(copy, "-m", "ruff", "format", "--check", config, *files)


def test_a_real_run_of_the_workload_is_parsed(copy: Path, tmp_path: Path) -> None:
    figures = json.loads(python(copy, "-c", WORKLOAD_RUN, str(tmp_path)))
    assert figures["throughput"] > 1_000_000
    assert f":sha512:{figures['throughput']:.2f}\n" in (tmp_path / "main.stdout").read_text()


def test_the_workload_refuses_garbage(copy: Path) -> None:
    assert python(copy, "-c", GARBAGE).count("refused:") == 3


def test_the_meter_sees_a_known_amount_of_work(copy: Path) -> None:
    seconds, figures = json.loads(python(copy, "-c", METER_SEES))
    assert figures["context_switches"] * seconds >= 997
    assert figures["interrupts"] > 0


def test_the_energy_meter_reads_its_sensor(copy: Path, tmp_path: Path) -> None:
    readings = python(copy, "-c", ENERGY_METER_SEES, str(tmp_path))
    assert readings.splitlines() == ["{'wall': 285.467}", "gone"]


@pytest.fixture
def agent(agent_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has no binary of its own. And the image is there before anything is timed."""
    monkeypatch.setenv("ULLAGE_AGENT", str(agent_binary))
    containerkit.image()


@pytest.mark.root
def test_the_provider_makes_instances_and_leaves_nothing(copy: Path, agent: None) -> None:
    assert python(copy, "-c", PROVIDER_SEES).count("passed:") == 7
    assert not Path("/dev/shm/unshare").exists()


@pytest.mark.root
def test_a_plan_runs_with_all_of_them(copy: Path, agent: None, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    where = ("--runs", str(tmp_path / "runs"))
    python(copy, "-m", patient.__name__, "run", str(tmp_path / "plan.yaml"), *where)
    (path,) = (tmp_path / "runs").iterdir()
    folder = RunFolder.open(path)
    assert len(folder.trials) == 2 * 4 * 3
    assert {trial.status for trial in folder.trials} == {"ok"}
    figures = [t.metrics for t in folder.trials if "address_time" in t.metrics]
    assert len(figures) == 2 * 4 * 2
    for metrics in figures:
        address, hello = metrics["address_time"], metrics["hello_time"]
        assert isinstance(address, float) and isinstance(hello, float)
        assert 0 < address < hello  # when it was so, not when the instance was up
    labels = {environment.key: environment.label for environment in folder.resolved.environments}
    assert labels["bare[time=true]"].startswith("namespaces (unshare)")
    assert leftovers.find(folder.resolved.tag, own=True) == []
    sql = "select unit, min(value) as least, count(*) as n from meters where meter = 'switches'"
    (row,) = json.loads(
        python(copy, "-m", "ullage", "query", f"{sql} group by unit", *where, "--json")
    )
    assert (row["unit"], row["n"]) == ("1/s", 2 * 2 * 4 * 3)
    assert row["least"] > 0


def test_an_elastic_plan_may_name_the_provider(copy: Path, agent: None, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(ELASTIC_PLAN)
    where = ("--runs", str(tmp_path), "--dry-run", "--json")
    arguments = ("elastic", "run", str(tmp_path / "plan.yaml"), *where)
    forecast = json.loads(python(copy, "-m", "ullage", *arguments))
    assert [environment["provider"] for environment in forecast["environments"]] == ["unshare"]
    assert forecast["generators"]["provider"] == "unshare"


def test_it_names_every_unit() -> None:
    (units,) = re.findall(r"Metrics have an SI unit \((.*?)\)", GUIDE)
    assert set(re.findall(r"`([^`]+)`", units)) == UNITS


def test_its_make_targets_and_files_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for targets in re.findall(r"`make ([a-z ]+)`", GUIDE):
        for target in targets.split():
            assert f"\n{target}:" in makefile
    for file in re.findall(r"`((?:ullage|docs|tests)/[\w/.]+\.\w+)`", GUIDE):
        example = re.search(rf"(?:Save it as|Give it)\s+`{re.escape(file)}`", GUIDE)
        assert example or (ROOT / file).exists(), file
