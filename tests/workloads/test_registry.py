"""The list of workloads, and what it refuses."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import Field

from ullage import workloads
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.registry import UNITS
from ullage.experiments.studies import STUDIES, Study
from ullage.runs.records import Coordinate, Curve, Metric, Scalar
from ullage.workloads import REGISTRY, sources
from ullage.workloads.base import Context, Output, Parameters, Task, Workload
from ullage.workloads.database.oltp_servers import POSTGRESQL

SPEED = Metric(name="speed", unit="1/s", better="higher", description="How fast.", primary=True)


CHOICES: Mapping[str, Sequence[dict[str, Any]]] = {
    "command": ({"argv": ["true"]},),
    "mpi-pingpong": ({"mpi": "mpich"}, {"program": "mpi4py"}),
    "n-queens": ({}, {"mpi": "mpich"}),
    "nas": ({}, {"parallel": "mpi"}, {"parallel": "mpi", "mpi": "mpich"}),
    "netpipe-mpi": ({}, {"mpi": "mpich"}),
    **{name: ({}, {"server": "apache2"}) for name in ("wrk", "httperf", "web-latency")},
    "oltp": ({}, {"database": "postgresql"}),
}
"""Workloads whose programs are not those of the defaults alone."""


class NapParameters(Parameters):
    length_s: float = Field(1, description="how long")


class Nap(Workload[NapParameters]):
    """Does nothing for a while."""

    name = "nap"
    resource = "cpu"
    packages = ()
    source = ("[ours](none)",)
    parameters_model = NapParameters
    metrics = (SPEED,)

    def programs(self, parameters: NapParameters) -> Mapping[str, str]:
        return {"sleep": "coreutils"}

    def duration_s(self, parameters: NapParameters) -> float:
        return parameters.length_s

    def tasks(self, parameters: NapParameters, context: Context) -> Sequence[Task]:
        return (Task("main", ("sleep", str(parameters.length_s))),)

    def check(self, parameters: NapParameters, outputs: Mapping[str, Output]) -> None:
        return None

    def parse(
        self, parameters: NapParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        return {"speed": 1.0}


class BadField(Parameters):
    length_s: float = 1


class TakenField(Parameters):
    vary: int = Field(1, description="a name of the plan's")


def test_the_list() -> None:
    assert workloads.names() == (
        "b-eff-io",
        "basics",
        "command",
        "connections",
        "dedup",
        "ferret",
        "flood-ping",
        "httperf",
        "iperf3",
        "mpi-pingpong",
        "nas",
        "netpipe",
        "netpipe-mpi",
        "n-queens",
        "oltp",
        "provisioning",
        "service",
        "streaming",
        "sysbench-cpu",
        "sysbench-fileio",
        "sysbench-memory",
        "sysbench-mutex",
        "sysbench-threads",
        "testdfsio",
        "web-latency",
        "wrk",
    )


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_is_complete(name: str) -> None:
    workload = workloads.get(name)
    assert workload.name == name
    assert len([metric for metric in workload.metrics if metric.primary]) == 1
    assert all(metric.unit in UNITS and metric.description for metric in workload.metrics)
    assert set(workload.scaling) <= set(workload.parameters_model.model_fields)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_settings_of_a_study_are_said_to_be_its(study: type[Study]) -> None:
    citation = getattr(sources, study.name.upper().replace("-", "_"))
    assert citation.startswith(f"`{study.name}` ") and citation.endswith(f": {study.source}")
    assert any(citation in workload.source for workload in workloads.WORKLOADS)


def test_programs_are_in_the_packages_of_the_image() -> None:
    for workload in workloads.WORKLOADS:
        choices = CHOICES.get(workload.name, ({},))
        for fields in choices:
            parameters = workload.parameters_model.model_validate(fields)
            programs = workload().programs(parameters)
            assert set(programs.values()) <= {*workload.packages, "util-linux"}, workload.name


@pytest.mark.parametrize(
    ("name", "fields", "needed"),
    [
        ("wrk", {}, "nginx wrk"),
        ("wrk", {"server": "apache2"}, "apache2 wrk"),
        ("httperf", {}, "httperf nginx"),
        ("web-latency", {}, "nginx"),
        ("oltp", {}, "mariadb-install-db mariadbd my_print_defaults setpriv sysbench"),
        ("oltp", {"database": "postgresql"}, f"{POSTGRESQL} setpriv sysbench"),
        ("nas", {}, ""),
        ("nas", {"parallel": "mpi", "mpi": "mpich"}, "mpiexec.mpich"),
        ("mpi-pingpong", {}, "mpirun.openmpi"),
        ("mpi-pingpong", {"program": "mpi4py"}, "mpirun.openmpi python3"),
        ("netpipe-mpi", {"mpi": "mpich"}, "NPmpich2 mpiexec.mpich"),
    ],
)
def test_no_program_is_needed_for_what_is_not_asked(
    name: str, fields: dict[str, Any], needed: str
) -> None:
    workload = workloads.get(name)
    parameters = workload.parameters_model.model_validate(fields)
    assert " ".join(sorted(workload.programs(parameters))) == needed


@pytest.mark.parametrize("name", [name for name in workloads.names() if name != "command"])
def test_defaults_are_a_whole_parameter_set(name: str) -> None:
    workload = workloads.get(name)
    parameters = workload.parameters_model()
    assert workload.duration_s(parameters) > 0
    assert len(workload.title(parameters)) <= 45
    again = workload.parameters_model.model_validate(parameters.model_dump(mode="json"))
    assert again == parameters


def test_unknown_name() -> None:
    with pytest.raises(KeyError):
        workloads.get("sysbench-cpus")


def test_a_good_class_is_taken() -> None:
    REGISTRY.refuse_faults((Nap,))


def test_a_name_taken_twice_is_refused() -> None:
    second_nap = type("Doze", (Nap,), {"__doc__": "Another nap."})
    for twice in ((Nap, second_nap), (Nap, Nap)):
        with pytest.raises(UllageError) as caught:
            REGISTRY.refuse_faults(twice)
        assert caught.value.kind is errors.LIST_DUPLICATE
        assert "Nap" in caught.value.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Nap Time"}, "lower-case words"),
        ({"name": "../nap"}, "lower-case words"),
        ({"name": 7}, "lower-case words"),
        ({"resource": "gpu"}, "resource 'gpu'"),
        ({"packages": "coreutils"}, "packages is not a tuple"),
        ({"programs": ("sleep",)}, "programs is not a method"),
        ({"programs": lambda self: {}}, "programs does not take"),
        ({"source": "[ours](none)"}, "source is not a tuple"),
        ({"source": ()}, "source is empty"),
        ({"source": ("a paper of somebody",)}, "has no link"),
        ({"source": ("[ours](none)", "[a](b c)")}, "'[a](b c)' has no link"),
        ({"source": ("<ftp://example.org>",)}, "has no link"),
        ({"scaling": "threads"}, "scaling is not a tuple"),
        ({"parameters_model": dict}, "subclass of Parameters"),
        ({"parameters_model": BadField}, "length_s lacks a description"),
        ({"parameters_model": TakenField}, "vary has a name"),
        ({"metrics": [SPEED]}, "not a tuple of Metric"),
        ({"metrics": ()}, "no metric is primary"),
        ({"metrics": (SPEED.model_copy(update={"primary": False}),)}, "no metric is primary"),
        ({"metrics": (SPEED, SPEED)}, "speed stands twice"),
        ({"metrics": (SPEED.model_copy(update={"unit": "MB/s"}),)}, "unit 'MB/s'"),
        ({"metrics": (SPEED.model_copy(update={"name": "Speed!"}),)}, "'Speed!'"),
        (
            {
                "metrics": (
                    SPEED.model_copy(update={"coordinate": Coordinate(name="size", unit="kB")}),
                )
            },
            "unit 'kB'",
        ),
        ({"__doc__": None}, "lacks a docstring"),
    ],
)
def test_a_wrong_interface_is_refused(change: dict[str, Any], says: str) -> None:
    wrong = type("Wrong", (Nap,), {"__doc__": "Wrong in one thing.", **change})
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((wrong,))
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    assert says in caught.value.message
    assert "Wrong" in caught.value.message


def test_what_is_missing_is_named() -> None:
    class Half(Workload[NapParameters]):
        """Half a workload."""

        name = "half"

        def duration_s(self, parameters: NapParameters) -> float:
            return 1.0

    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((Half,))
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    for missing in ("check", "parse", "tasks", "resource", "packages", "metrics"):
        assert missing in caught.value.message


@pytest.mark.parametrize("line", ["nowhere.Nap", "command.Nowhere", "command.Argument", "command"])
def test_a_line_that_names_no_workload_is_refused(line: str) -> None:
    with pytest.raises(UllageError) as caught:
        REGISTRY.load(line)
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
