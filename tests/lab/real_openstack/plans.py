"""Plans with an instance of the lab's cloud, and what the cloud has afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lab.real_openstack.stack import Stack
from ullage.experiments.elastic.folder import Act, read_acts, repetition_folder

CLOUD = "{provider: openstack, cloud: lab, flavor: lab, boot_image: debian12, network: prov, "
CLOUD += "user: root, host_key: console, deadline_s: 1200}"
PLAN = f"""\
name: openstack
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
allow: [pinning]
environments:
  native: {{provider: native}}
  lxc: {{provider: lxc}}
  cloud: {CLOUD}
workloads:
  - {{name: sysbench-cpu, time_s: 1}}
blocks: {{min: 3, max: 3}}
seed: 1
"""

ELASTIC = f"""\
name: openstack-elastic
baseline: lxc
room: 2
resources: {{cpus: 1, memory: 512MiB}}
environments:
  lxc: {{provider: lxc}}
  cloud: {CLOUD.removesuffix("}")}, price: {{per_hour: 0.02, currency: EUR, billed: minute}}}}
nodes: {{max: 2, allocation: one_per_need}}
arrivals: {{kind: uniform, rate: 1, viewers: 4}}
video: {{length: 20s, bitrate: 200000, generate: bytes}}
patience: PATIENCE
repetitions: 1
lateness_limit: 60
budgets: {{allocate: {{tries: 1, limit: 2400}}, release: {{tries: 2, limit: 600}}}}
seed: 7
"""


def listed(*options: str) -> Any:
    """What the cloud says that ullage has there."""
    argv = [
        sys.executable,
        "-m",
        "ullage",
        "cloud",
        "list",
        "openstack",
        "--cloud",
        "lab",
        "--json",
    ]
    done = subprocess.run([*argv, *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def keys(stack: Stack) -> str:
    """Names of key pairs that are still there."""
    return stack.inside(
        *("openstack", "--os-auth-url", "http://10.99.0.2:5000/v3", "--os-username", "guest"),
        *(
            "--os-password",
            "lab",
            "--os-project-name",
            "guests",
            "--os-user-domain-name",
            "Default",
        ),
        *("--os-project-domain-name", "Default", "--os-identity-api-version", "3"),
        *("keypair", "list", "-f", "value", "-c", "Name"),
    )


def elastic(tmp_path: Path, patience: str) -> tuple[tuple[Act, ...], dict[str, Any]]:
    """What was done to the cloud's nodes, and the figures of it."""
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(ELASTIC.replace("PATIENCE", patience))
    argv = [sys.executable, "-m", "ullage", "elastic", "run", str(file), "--runs", str(runs)]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = runs.iterdir()
    (cloud,) = [e for e in json.loads(done.stdout)["environments"] if e["key"] == "cloud"]
    print(cloud)
    assert listed() == []
    figures = {estimate["metric"]: estimate["mean"] for estimate in cloud["estimates"]}
    return read_acts(repetition_folder(run, "cloud", 0)), figures
