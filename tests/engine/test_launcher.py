"""What a program has started elsewhere: requests are read strictly, and every failure has a reason.

On real agents, in network namespaces.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.enginekit import run
from ullage import workloads
from ullage.engine import launcher
from ullage.engine.fleet import Fleet
from ullage.engine.launcher import Requests
from ullage.engine.program import TrialFailedError
from ullage.engine.team import Team
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric, Scalar
from ullage.workloads.base import Context, Output, Parameters, Role, Task, Workload
from ullage.workloads.mpi import mpi

SECONDS = Metric(name="seconds", unit="s", better="lower", primary=True, description="Elapsed.")


# --- requests -------------------------------------------------------------------------------------
@given(st.lists(st.binary(max_size=30)), st.data())
def test_pieces_make_no_difference(noise: list[bytes], data: st.DataObject) -> None:
    lines = [b"  " + piece.replace(b"\n", b"") + b"\n" for piece in noise]
    requests_ = [b"ullage-exec 10.0.0.%d orted --id %d\n" % (i, i) for i in range(len(lines))]
    text = b"".join(a + b for a, b in zip(lines, requests_, strict=True))
    requests, taken_requests = Requests(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        taken_requests += requests.take(text[:size])
        text = text[size:]
    assert taken_requests == [
        (f"10.0.0.{i}", ("orted", "--id", str(i))) for i in range(len(requests_))
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"ullage-exec \n",
        b"ullage-exec host orted\n",
        b"ullage-exec 10.0.0.1 sh -c orted\n",
        b"ullage-exec 10.0.0.1 orted '\n",
        b"ullage-exec ::1 x\n",
        b"ullage-exec \xff x\n",
    ],
)
def test_what_cannot_be_a_request_fails_the_trial(line: bytes) -> None:
    with pytest.raises(TrialFailedError, match="not a request"):
        Requests().take(line)


def test_requests_have_an_end() -> None:
    requests = Requests()
    with pytest.raises(TrialFailedError, match="longer than"):
        requests.take(mpi.MARK + b"x" * (mpi.LONGEST + 1))
    assert Requests().take(b"x" * (3 * mpi.LONGEST)) == [], "other lines may be long"
    with pytest.raises(TrialFailedError, match=f"more than {launcher.MOST}"):
        Requests().take(b"ullage-exec 10.0.0.1 orted\n" * (launcher.MOST + 1))


@given(st.text())
def test_a_quotation_is_short_and_printable(text: str) -> None:
    words = mpi.plain(text)
    assert words and len(words) <= mpi.LONGEST_WORDS + 1 and "\n" not in words


# --- on real agents -------------------------------------------------------------------------------
class AskingParameters(Parameters):
    """What the program does; `$PEER` is the other instance."""

    script: str = "true"


class Asking(Workload[AskingParameters]):
    """Has something started in another instance."""

    name = "asking"
    resource = "other"
    packages = ()
    source = ("[ours](none)",)
    parameters_model = AskingParameters
    metrics = (SECONDS,)

    def programs(self, parameters: AskingParameters) -> Mapping[str, str]:
        return {"sh": "dash"}

    def roles(self, parameters: AskingParameters) -> Sequence[Role]:
        return Role("main"), Role("peer", "second")

    def files(self, parameters: AskingParameters) -> Mapping[str, Path]:
        return {"ask": mpi.SHELL_FILE}

    def duration_s(self, parameters: AskingParameters) -> float:
        return 0.1

    def tasks(self, parameters: AskingParameters, context: Context) -> Sequence[Task]:
        env = {"PEER": context.addresses["peer"]}
        return (Task("main", ("sh", "-c", parameters.script), env=env, launches=True),)

    def check(self, parameters: AskingParameters, outputs: Mapping[str, Output]) -> None:
        assert set(outputs) == {"main"}, "what was launched is no role"

    def parse(
        self, parameters: AskingParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | list[tuple[float, float]]]:
        return {"seconds": outputs["main"].seconds}


class DyingParameters(mpi.MpiParameters):
    """Of whom rank 1 is killed."""


class Dying(mpi.MpiWorkload[DyingParameters]):
    """Ranks of which one is killed."""

    name = "dying"
    resource = "other"
    parameters_model = DyingParameters
    metrics = (SECONDS,)

    def duration_s(self, parameters: DyingParameters) -> float:
        return 0.1

    def tasks(self, parameters: DyingParameters, context: Context) -> Sequence[Task]:
        kill = '[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] && kill -9 $$; exec sleep 60'
        return (self.launch(parameters, context, 2, ("sh", "-c", kill), 50.0),)

    def check(self, parameters: DyingParameters, outputs: Mapping[str, Output]) -> None:
        mpi.finished(outputs)

    def parse(
        self, parameters: DyingParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | list[tuple[float, float]]]:
        return {"seconds": outputs["main"].seconds}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, places_of_its_own: None) -> None:
    monkeypatch.setattr(launcher, "PROGRAMS", launcher.PROGRAMS | {"sh"})
    monkeypatch.setattr(workloads, "WORKLOADS", (*workloads.WORKLOADS, Asking, Dying))


def by_load(folder: RunFolder) -> dict[str, list[Trial]]:
    trials_by_case: dict[str, list[Trial]] = {}
    for trial in folder.trials:
        trials_by_case.setdefault(trial.workload, []).append(trial)
    return trials_by_case


AWAIT = "until test -e UP$PEER; do sleep 0.01; done"
"""Until what was asked for runs: nothing is started for a program that has ended meanwhile."""
CASES = {
    "stranger": ("./ask 10.99.99.99 sh", "bad-launch", "10.99.99.99 is no instance"),
    "nonsense": ("echo ullage-exec me >&2; sleep 60", "bad-launch", "not a request"),
    "daemon": (
        """./ask $PEER "sh -c 'echo no such daemon >&2; exit 7'"; sleep 60""",
        "launch-failed",
        "main-launched-0 ended with status 7: no such daemon",
    ),
    "killed": (
        """./ask $PEER "sh -c 'kill -9 \\$\\$'"; sleep 60""",
        "launch-failed",
        "with signal 9: nothing",
    ),
    "shell": ("./ask $PEER 'rm -rf /'; sleep 60", "bad-launch", "is no daemon of an MPI"),
    "late": (
        f"""./ask $PEER "sh -c 'touch UP$PEER; sleep 0.2; exit 7'"; {AWAIT}; echo I gave up >&2""",
        "launch-failed",
        "ended with status 7: nothing; main says: I gave up",
    ),
    "hangs": (
        """./ask $PEER "sh -c 'sleep 0.3; exit 7'"; kill -9 $$""",
        "killed",
        "main was killed by signal 9",
    ),
    "lingers": (
        f"""./ask $PEER "sh -c 'touch UP$PEER; sleep 60'"; {AWAIT}""",
        "launch-failed",
        "still runs",
    ),
}


@pytest.mark.root
@pytest.mark.usefixtures("listed")
def test_what_goes_wrong_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "PATIENCE_S", 0.1)
    monkeypatch.setattr(launcher, "LINGER_S", 1.5)
    scripts = {name: case[0].replace("UP", f"{tmp_path}/{name}-") for name, case in CASES.items()}
    loads = [f"name: asking, as: {key}, script: {json.dumps(scripts[key])}" for key in CASES]
    _, folder = run(tmp_path, loads, blocks=1)
    for name, trials in by_load(folder).items():
        _, code, words = CASES[name]
        for trial in trials:
            assert trial.status == "failed" and trial.reason is not None, name
            assert trial.reason.code == code and words in trial.reason.message, trial.reason


@pytest.mark.root
@pytest.mark.usefixtures("listed")
def test_one_that_fails_ends_the_others_and_what_they_had_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two mpiruns side by side: nothing of a trial that is over listens, waits or runs."""
    monkeypatch.setattr(launcher, "PATIENCE_S", 0.1)
    freeze, remaining = Fleet.freeze, list[str]()

    async def then_look(self: Fleet, teams: Iterable[Team]) -> None:
        todo = [str(task.get_coro()) for task in asyncio.all_tasks()]
        remaining.extend(
            coroutine for coroutine in todo if re.search("Attempt|Launcher|Part|_watch", coroutine)
        )
        await freeze(self, teams)

    monkeypatch.setattr(Fleet, "freeze", then_look)
    up = tmp_path / "up"
    fails = f"""until test -e {up}; do sleep 0.01; done; ./ask $PEER "sh -c 'exit 7'" """
    stays = f"""./ask $PEER "sh -c 'touch {up}; exec sleep 300'" """
    script = f"case $PWD in *other-0*) {fails};; *other-1*) {stays};; *) exit;; esac; sleep 300"
    load = f"name: asking, script: {json.dumps(script)}"
    tested = ", instances: 2"
    _, folder = run(tmp_path, [load], blocks=1, other=tested, extra="allow: [instances]\n")
    (trial,) = [done for done in folder.trials if done.environment == "other"]
    assert trial.reason is not None and trial.reason.code == "launch-failed", trial.reason
    ends = {role.role: (role.status, role.signal) for role in trial.roles}
    assert sorted(ends.values(), key=str) == [(7, None), *[(None, 9)] * 3], ends
    assert remaining == []


@pytest.mark.root
@pytest.mark.usefixtures("listed")
def test_what_is_asked_for_is_started_there(tmp_path: Path) -> None:
    asking = f"./ask $PEER \"sh -c 'cat /proc/net/fib_trie; touch UP$PEER'\"; {AWAIT}"
    script = f"{asking}; echo mine: $PEER".replace("UP", f"{tmp_path}/")
    _, folder = run(tmp_path, [f"name: asking, script: {json.dumps(script)}"], blocks=1)
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        main, launched = trial.roles
        assert launched.role == "main-launched-0" and launched.instance != main.instance
        address = (folder.path / str(main.stdout)).read_text().split()[1]
        assert address in (folder.path / str(launched.stdout)).read_text(), "its own addresses"


@pytest.mark.root
@pytest.mark.usefixtures("listed")
@pytest.mark.skipif(
    not (shutil.which("mpirun.openmpi") and shutil.which("mpiexec.mpich")), reason="needs both MPIs"
)
def test_a_rank_that_is_killed_ends_the_trial(tmp_path: Path) -> None:
    loads = [f"name: dying, as: {name}, mpi: {name}, peer: second" for name in mpi.INSIDE]
    _, folder = run(tmp_path, loads, blocks=1)
    for trial in folder.trials:
        assert trial.status != "ok" and trial.reason is not None
        openmpi = "status 137, a rank with signal 9" in trial.reason.message
        mpich = re.search("PID .* RUNNING AT .* EXIT CODE: 9", trial.reason.message)
        assert openmpi or mpich, trial.reason
        assert trial.metrics == {}
