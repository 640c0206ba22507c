"""Real MariaDB and PostgreSQL, from an image: their figures, and what happens when they fail."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.runkit import finished
from ullage.runs.events import Trial

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: oltp
baseline: native
resources: {cpus: 1, memory: 1GiB}
environments:
  native: {provider: native}
"""
ONE = "blocks: {min: 1, max: 1}\n"
SMALL = "tables: 2, table_size: 1000, time_s: 1, warmup_s: 0"

WRONG_PASSWORD = """
from ullage.workloads.database.oltp import Oltp
from dataclasses import replace
real = Oltp.tasks
def tasks(self, parameters, context):
    env = {"OLTP_PASSWORD": "another", "OLTP_TEST": parameters.test}
    planned = real(self, parameters, context)
    return [replace(t, env=env) if t.env else t for t in planned]
Oltp.tasks = tasks
"""
NEVER_LISTENS = """
from ullage.workloads.database.oltp import Oltp
from dataclasses import replace
real = Oltp.tasks
def tasks(self, parameters, context):
    planned = real(self, parameters, context)
    return [replace(t, ready="never", ready_s=2.0) if t.service else t for t in planned]
Oltp.tasks = tasks
"""


def failures(trials: tuple[Trial, ...]) -> set[str]:
    assert trials and not any(trial.metrics for trial in trials)
    return {trial.reason.message for trial in trials if trial.reason}


def test_both_servers_native_and_in_a_container(tmp_path: Path) -> None:
    plan = PLAN + "  container: {provider: oci}\nworkloads:\n"
    plan += f"  - {{name: oltp, vary: {{database: [mariadb, postgresql]}}, {SMALL}}}\n"
    plan += "  - {name: oltp, as: locks, client: same, tables: 1, table_size: 1000, threads: 8,"
    plan += " events: 24, index_updates: 25}\n"
    status, folder = finished(tmp_path, plan + ONE)
    assert status == 0 and len(folder.trials) == 9
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        figures = {name: y for name, y in trial.metrics.items() if isinstance(y, float)}
        assert figures["server_cpu_per_transaction"] > 0
        assert figures["latency_min_s"] <= figures["latency_avg_s"] <= figures["latency_max_s"]
        title = "PostgreSQL 15" if "postgresql" in trial.workload else "MariaDB 10.11"
        assert trial.facts["server"].startswith(title)
        if trial.workload == "locks":
            assert figures["deadlocks"] > 0 and "40001" in trial.facts["restarts_by_sqlstate"]
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    secret = re.compile(rb"OLTP_PASSWORD|-password=")
    assert not [path for path in files if secret.search(path.read_bytes())]


@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_in_a_guest(tmp_path: Path, database: str) -> None:
    plan = PLAN + "  vm: {provider: qemu}\nworkloads:\n"
    plan += f"  - {{name: oltp, database: {database}, client: same, threads: 2, tables: 1,"
    plan += " table_size: 500, events: 5}\n"
    status, folder = finished(tmp_path, plan + ONE)
    assert status == 0 and {trial.environment for trial in folder.trials} >= {"native", "vm"}
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        figures = {name: y for name, y in trial.metrics.items() if isinstance(y, float)}
        assert figures["total_time_s"] == pytest.approx(5 / figures["transactions_per_second"])


def test_a_server_in_each_of_three_instances(tmp_path: Path) -> None:
    plan = PLAN.replace("provider: native}", "provider: native, instances: 3}")
    plan += f"workloads:\n  - {{name: oltp, servers: each, threads: 5, {SMALL}}}\n"
    status, folder = finished(tmp_path, plan + ONE)
    assert status == 0
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        roles = [role.role for role in trial.roles]
        assert roles == ["server-0", "server-1", "server-2", "client"]
        assert all(role.usage and role.usage.user_s > 0 for role in trial.roles)


@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (WRONG_PASSWORD, r"(Access denied for user|password authentication failed)"),
        (NEVER_LISTENS, r"(never|did not|not up|within)"),
    ],
)
def test_a_server_that_lets_nobody_in(tmp_path: Path, database: str, change: str, why: str) -> None:
    plan = f"{PLAN}workloads:\n  - {{name: oltp, database: {database}, {SMALL}}}\n{ONE}"
    status, folder = finished(tmp_path, plan, change)
    assert status != 0
    for message in failures(folder.trials):
        assert re.search(why, message), message


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An ext4 file system of 420 MiB, or as many as asked for, for the data of all instances."""
    image, place = tmp_path / "disk", tmp_path / "data"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(getattr(request, "param", 420) << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("database", "why"),
    [("mariadb", r"full|No space left"), ("postgresql", r"No space left on device")],
)
def test_a_database_that_is_full(tmp_path: Path, small_disk: Path, database: str, why: str) -> None:
    plan = f"{PLAN}workloads:\n  - {{name: oltp, database: {database}, client: same, tables: 1,"
    plan += f" table_size: 1000000, time_s: 1}}\n{ONE}"
    status, folder = finished(tmp_path, plan, env={"ULLAGE_DATA_DIR": str(small_disk)})
    assert status != 0
    for message in failures(folder.trials):
        assert re.search(why, message), message


FILLS_ONCE = r"""
from ullage.workloads.database.oltp import Oltp
from dataclasses import replace
FULL = r'''
if [ -e ../once ]; then exec "$@"; fi
touch ../once
mkfifo ../said
while IFS= read -r line; do
    printf '%s\n' "$line"
    [ "$line" = 'Threads started!' ] || continue
    # At once, however slow the disk is; what is too little for that, byte by byte.
    fallocate -l "$(df -B 1 --output=avail .. | tail -n 1)" ../filler 2>/dev/null || :
    cat /dev/zero >> ../filler 2>/dev/null || :
done < ../said &
status=0
"$@" > ../said || status=$?
wait
rm ../filler
exit $status'''
real = Oltp.tasks
def tasks(self, parameters, context):
    for task in real(self, parameters, context):
        yield task if task.service else replace(task, argv=("sh", "-c", FULL, "-", *task.argv))
Oltp.tasks = tasks
"""
"""In each instance's first trial its disk is full from the first transaction to the last."""

FILLED = """\
name: full
baseline: container
resources: {cpus: 1, memory: 1GiB}
environments:
  container: {provider: oci}
blocks: {min: 2, max: 2}
workloads:
"""
GROWS = "threads: 4, tables: 1, table_size: 20000, events: 300000, test: update_index"
"""By work, not by time: however slow a machine is, the tables grow until the disk has no room."""


@pytest.mark.parametrize("small_disk", [900], indirect=True)  # two databases that grow
@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_a_disk_that_is_full_during_a_trial(
    tmp_path: Path, small_disk: Path, database: str
) -> None:
    plan = f"{FILLED}  - {{name: oltp, database: {database}, client: same, {GROWS},"
    plan += " commits: deferred, distribution: uniform}\n"
    status, folder = finished(tmp_path, plan, FILLS_ONCE, {"ULLAGE_DATA_DIR": str(small_disk)})
    assert status != 0 and len(folder.trials) == 4
    for message in failures(folder.trials[:2]):
        assert "the disk of server is full: " in message
    for trial in folder.trials[2:]:
        assert trial.status == "ok", trial.reason
        rate = trial.metrics["transactions_per_second"]
        assert isinstance(rate, float) and rate > 0
