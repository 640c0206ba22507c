"""What works beside a trial on purpose."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.commandkit import ullage
from tests.support.enginekit import run
from ullage import workloads
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.plan import matrix, neighbours, schema
from ullage.plan.instances import Needs
from ullage.plan.neighbours import NEIGHBOUR, PROGRAMS, in_words, task
from ullage.plan.schema import Neighbour
from ullage.runs.records import Curve, Scalar
from ullage.workloads.base import Context, Output, Role, Task
from ullage.workloads.command import CommandParameters, OwnCommand
from ullage.workloads.output import output_of

NO_HOG = {"other": ", neighbour: {busy: 50%}"}
WAIT = 'name: command, argv: ["sleep", "0.3"]'
CORES = len(os.sched_getaffinity(0))

PLAN = """\
name: beside
baseline: native
environments:
  native: {{provider: native}}
  vm: {{provider: qemu, vary: {{nic: [virtio, e1000]}}}}
  busy: {{provider: native, {field}}}
workloads: [{{name: sysbench-cpu}}]
"""


def resolved(field: str, extra: str = "") -> matrix.Matrix:
    return matrix.resolve(*schema.loads(PLAN.format(field=field) + extra))


def refused(field: str, extra: str = "") -> str:
    with pytest.raises(UllageError) as caught:
        resolved(field, extra)
    return str(caught.value)


def test_a_burner_is_told_how_much_of_each_cpu_it_takes() -> None:
    argv = task(Neighbour(busy=0.25), 2).argv
    assert argv[argv.index("--cpu") + 1] == "2"
    assert argv[argv.index("--cpu-load") + 1] == "25"
    assert "--stream" in task(Neighbour(load="memory"), 1).argv
    assert "--hdd" in task(Neighbour(load="disk"), 1).argv
    ffmpeg = task(Neighbour(program="ffmpeg"), 3).argv
    assert ffmpeg[ffmpeg.index("-threads") + 1] == "3"


def test_in_words() -> None:
    assert in_words(Neighbour(busy=0.5)) == "stress-ng (cpu) at 50 % beside it, on the same CPUs"
    in_vm = Neighbour(program="ffmpeg", environment="vm", cpus="other")
    assert in_words(in_vm) == "ffmpeg beside it, on other CPUs, in vm"
    assert in_words(in_vm, 4) == "ffmpeg beside each of its 4 instances, on other CPUs, in vm"


def test_it_may_be_a_factor() -> None:
    planned = resolved("vary: {neighbour.busy: [50%, 100%]}")
    keys = {e.key: e.neighbour and e.neighbour.busy for e in planned.environments}
    assert keys["busy[neighbour.busy=50%]"] == 0.5
    assert keys["busy[neighbour.busy=100%]"] == 1.0
    assert keys["native"] is None and keys["native~again"] is None
    assert "stress-ng" in matrix.packages(planned)
    assert matrix.needed_programs(planned)["stress-ng"] == "stress-ng"


def test_it_loads_the_disk_of_the_one_that_is_tested() -> None:
    planned = resolved("disk: {path: /mnt/ssd}, neighbour: {load: disk}")
    beside = Needs(planned).environment("busy" + NEIGHBOUR)
    assert beside.provider.data_request.path == Path("/mnt/ssd")
    assert (
        Needs(resolved("neighbour: {}")).environment("busy" + NEIGHBOUR).provider.data_request.path
        is None
    )


def test_without_fields_it_is_there_all_the_same() -> None:
    busy = resolved("neighbour: {}").environment("busy")
    assert busy.neighbour == Neighbour()


def test_what_cannot_be_is_refused_with_its_line() -> None:
    assert "plan.yaml:6" in refused("neighbour: {program: ffmpeg, load: cpu}")
    assert "plan.yaml:6" in refused("neighbour: {load: disk, busy: 50%}")
    assert "plan.yaml:6" in refused("neighbour: {environment: nowhere}")
    assert "is not one environment" in refused("neighbour: {environment: vm}")
    assert "has all CPUs" in refused("neighbour: {}", "design: duet\n")


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
def test_it_works_while_the_trial_does_and_is_frozen_else(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [WAIT], blocks=2, other=NO_HOG["other"])
    for trial in folder.trials:
        burners = [role for role in trial.roles if role.role.startswith(neighbours.ROLE)]
        assert trial.status == "ok", trial.reason
        assert len(burners) == (trial.environment == "other")
        (main,) = [role for role in trial.roles if role.role == "main"]
        for role in burners:
            assert role.start_ns < main.start_ns and main.end_ns < role.end_ns
            assert role.usage is not None and role.usage.user_s > 0
            assert role.instance != main.instance
    tested = next(e for e in folder.resolved.environments if e.key == "other")
    assert tested.treatments["neighbour"].startswith("stress-ng (cpu) at 50 %")
    assert "beside stress-ng" in tested.label


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
def test_one_that_ends_by_itself_leaves_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(
        PROGRAMS["stress-ng"], argv=lambda _, __: ("sh", "-c", "echo started [; sleep 0.1")
    )
    monkeypatch.setitem(PROGRAMS, "stress-ng", short)
    _, folder = run(tmp_path, [WAIT], blocks=1, other=NO_HOG["other"])
    trials = [trial for trial in folder.trials if trial.environment == "other"]
    assert [trial.status for trial in trials] == ["failed"]
    assert trials[0].reason is not None and trials[0].reason.code == "neighbour-ended"
    assert all(t.status == "ok" for t in folder.trials if t.environment != "other")


class Everywhere(OwnCommand):
    """In all instances at once."""

    name = "everywhere"

    def roles(self, parameters: CommandParameters) -> Sequence[Role]:
        return (Role("main", "each"),)

    def tasks(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        return [
            Task(role, tuple(parameters.argv), cwd=context.workspaces[role])
            for role in context.members("main")
        ]

    def check(self, parameters: CommandParameters, outputs: Mapping[str, Output]) -> None:
        for role in outputs:
            output_of(outputs, role)

    def parse(
        self, parameters: CommandParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        return {"seconds": max(output.seconds for output in outputs.values())}

    def steps(
        self, parameters: CommandParameters, outputs: Mapping[str, Output]
    ) -> dict[str, float]:
        return {}


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
@pytest.mark.parametrize("name", ["command", "everywhere"])
def test_each_instance_has_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "WORKLOADS", (*workloads.WORKLOADS, Everywhere))
    load = f'name: {name}, argv: ["sleep", "0.3"]'
    tested = ", instances: 3, neighbour: {busy: 10%}"
    _, folder = run(tmp_path, [load], blocks=1, other=tested, extra="allow: [instances]\n")
    (trial,) = [trial for trial in folder.trials if trial.environment == "other"]
    assert trial.status == "ok", trial.reason
    cpus = {event.instance: event.facts["cpus_allowed"] for event in folder.provisioned}
    burners = [role for role in trial.roles if role.role.startswith(neighbours.ROLE)]
    mains = [role for role in trial.roles if role.role.startswith("main")]
    assert len({role.instance for role in burners}) == len({role.instance for role in mains}) == 3
    assert [cpus[a.instance] for a in burners] == [cpus[b.instance] for b in mains], "on the same"
    assert all(role.usage and role.usage.user_s > 0 for role in burners)
    environment = next(e for e in folder.resolved.environments if e.key == "other")
    assert "beside each of its 3 instances" in environment.treatments["neighbour"]


def test_a_plan_for_more_cpus_is_refused_before_anything_starts(tmp_path: Path) -> None:
    text = PLAN.format(field="neighbour: {cpus: other}").replace("sysbench-cpu", "iperf3")
    plan_file = tmp_path / "plan.yaml"
    plan_file.write_text(f"{text}resources: {{cpus: {max(1, CORES // 2)}}}\n")
    dry = ullage("run", "plan.yaml", "--dry-run", cwd=tmp_path)
    assert dry.code == 0 and "not on this host: the plan asks for" in dry.stderr
    done = ullage("run", "plan.yaml", cwd=tmp_path)
    assert done.code == errors.HOST_TOO_SMALL.exit_code
    assert "for neighbours on `other` ones" in done.stderr
    assert list(tmp_path.iterdir()) == [plan_file]


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
def test_other_cpus_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        run(tmp_path, [WAIT], blocks=1, other=", neighbour: {cpus: other}", cpus=CORES)
    assert caught.value.kind is errors.HOST_TOO_SMALL
