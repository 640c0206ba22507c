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
        my ($method, $length) = ("", 0);
        while (<$client>) {
            $method = $1 if /^(GET|POST) /;
            $length = $1 if /^content-length: (\d+)/i;
            next unless /^\r$/;
            read $client, my $body, $length if $length;
            my $status = $method eq "POST" && $body !~ /^root:.*nobody:/s ? "400 Bad" : "200 OK";
            syswrite $client, "HTTP/1.1 $status\r\nContent-Length: 2\r\n\r\nhi";
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
    vary: {{method: [GET, POST]}}
    body_file: /etc/passwd
    headers: {{X-Of: the lab}}
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
    served = [trial for trial in folder.trials if trial.workload != "greedy"]
    assert {trial.workload for trial in served} == {"service[method=GET]", "service[method=POST]"}
    for method in ("GET", "POST"):
        places = {
            trial.environment for trial in served if trial.workload == f"service[method={method}]"
        }
        assert places == environments
    for trial in served:
        environment = trial.environment
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
