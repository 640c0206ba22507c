"""A server of the user's in every kind of environment, with all its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.runkit import ran

pytestmark = [pytest.mark.lab, pytest.mark.root]

SERVER = r"""
use IO::Socket::INET;
my $port = IO::Socket::INET->new(LocalAddr => "0.0.0.0:8080", Listen => 64, ReuseAddr => 1) or die;
while (my $client = $port->accept) {
    if (!fork) {
        while (<$client>) {
            syswrite $client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" if /^\r$/;
        }
        exit;
    }
    close $client;
}
"""
"""The image has Perl, as every Debian: a process for each connection."""

PLAN = f"""\
name: service
baseline: native
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  oci: {{provider: oci}}
  lxc: {{provider: lxc}}
  vm: {{provider: qemu, accel: tcg}}
workloads:
  - name: service
    argv: [perl, -e, {json.dumps(SERVER)}]
    ready: /
    ready_s: 300
    rate: 50
    time_s: 4
    deadline_s: 60
    late_limit_s: 60
  - name: command
    as: greedy
    argv: [perl, -e, "push @all, 'x' x 1e7 while 1"]
blocks: {{min: 1, max: 1}}
"""


def test_a_server_in_every_kind_of_environment_and_one_that_takes_all_memory(
    tmp_path: Path,
) -> None:
    folder = ran(tmp_path, PLAN, statuses=(3,))
    environments = {"native", "native~again", "oci", "lxc", "vm"}
    served = {trial.environment: trial for trial in folder.trials if trial.workload == "service"}
    assert set(served) == environments
    for environment, trial in served.items():
        assert trial.status == "ok", (environment, trial.reason)
        assert trial.metrics["errors"] == 0.0
        for name in ("startup", "server_cpu_per_reply", "server_peak_memory", "latency_p95"):
            value = trial.metrics[name]
            assert isinstance(value, float) and value > 0, (environment, name)
    greedy = {trial.environment: trial for trial in folder.trials if trial.workload == "greedy"}
    assert set(greedy) == environments
    for environment, trial in greedy.items():
        assert trial.reason is not None and trial.reason.code == "killed", environment
        assert "its instance ran out of memory" in trial.reason.message, environment
