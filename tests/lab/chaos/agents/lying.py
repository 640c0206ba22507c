"""Lying agents in the place of the real one, through the whole of `ullage run`.

A native agent is the liar itself; what comes out of a container passes through it on the way. A
node lies too: what serves at the other end of a double of ssh.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.lab.chaos.agents.lies import LIES
from tests.lab.chaos.agents.node_lies import NODE_LIES
from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError
from tests.lab.chaos.controller import GONE_S, Controller, stretched_s
from tests.lab.chaos.subjects import Attacked, Subject, check_words, terminate
from tests.nodes.nodekit import other_machine
from ullage.environments.agent import client
from ullage.environments.agent.transport import Transport
from ullage.environments.qemu.process import QemuProcess
from ullage.nodes import link as links
from ullage.nodes.reach.install import install
from ullage.nodes.reach.openssh import Target
from ullage.nodes.reach.tree import tree_digest
from ullage.nodes.wire import LEASE_S

DEADLINE_S: Final = 180.0
"""Two trials, each with a start of 10 s, and 30 s of patience for the answers in it."""
MEMORY_BYTES: Final = 500_000_000
_LIAR: Final = Path(__file__).with_name("liar.py")
_PLAN: Final = """\
name: lied-to
baseline: {name}
{image}resources: {{cpus: 1, memory: 256MiB}}
environments:
  {name}: {{provider: {name}}}
workloads:
  - {{name: command, argv: [sh, -c, "sleep 0.01; echo 42"], timeout_s: 3}}
blocks: {{min: 1, max: 1}}
seed: 3
"""
SUBJECTS: Final = {
    name: Subject("lied-to", _PLAN.format(name=name, image=image), finished=2)
    for name, image in (("native", "image: host\n"), ("oci", ""), ("lxc", ""), ("qemu", ""))
}
_OF_VMS: Final = 8
"""One lie in so many is also told by a VM, which takes long to boot."""


SUBJECTS["node"] = Subject(
    "lied-to",
    _PLAN.format(name="native", image="image: host\nnodes: {a: {ssh: root@a}}\n").replace(
        "provider: native", "provider: native, place: {a: 1}"
    ),
    finished=2,
)


def _cases(seed: int) -> Iterable[str]:
    """Agents, then nodes: they take turns."""
    chance = random.Random(seed)
    names, of_nodes = list(LIES), list(NODE_LIES)
    chance.shuffle(names)
    chance.shuffle(of_nodes)
    agents = [f"{kind}/{name}" for name in names for kind in ("native", "oci", "lxc")]
    agents += [f"qemu/{name}" for name in names[::_OF_VMS]]
    turns = itertools.zip_longest(agents, (f"node/{name}" for name in of_nodes))
    return [name for turn in turns for name in turn if name is not None]


def play(case: Case) -> None:
    """One run with one lie; then what it left is read and cleaned away."""
    kind, _, name = case.name.partition("/")
    attacked = Attacked(case, SUBJECTS[kind])
    if kind == "node":
        rule = _node_with_liar(case.place) / "lie.json"
        rule.write_text(json.dumps(NODE_LIES[name]), encoding="utf-8")
    else:
        rule = case.place / "lie.json"
        rule.write_text(json.dumps(LIES[name]), encoding="utf-8")
        os.environ["ULLAGE_LIE"] = str(rule)
        _put_liar_before(kind)
    controller = attacked.start()
    in_time = controller.gone(DEADLINE_S)
    if not in_time:
        terminate(controller, signal.SIGTERM, GONE_S)
    attacked.see()
    check_words(controller)
    _check_terminal(controller)
    _check_figures(attacked)
    _check_shown(attacked)
    case.counts[f"{kind}_runs"] += 1
    case.counts[f"{kind}_lies"] += rule.with_suffix(".json.done").exists()
    case.most("most_memory_mb", controller.max_rss_bytes / 1e6)
    if kind == "node":
        _await_end_of_node(case.place)
    attacked.check_nothing_left("after the run")
    if controller.max_rss_bytes > MEMORY_BYTES:
        raise FaultFoundError(f"it took {controller.max_rss_bytes / 1e6:.0f} MB")
    if not in_time:
        raise FaultFoundError(f"not at its end after {DEADLINE_S:g} s: {controller.stderr[-300:]}")


def _node_with_liar(place: Path) -> Path:
    """The home of another machine; its ullage is put there once for all cases."""
    home = other_machine(place)
    for name in ("GREETING_S", "SILENCE_S"):  # a lie is told by a node that is there
        setattr(links, name, stretched_s(getattr(links, name)))
    os.environ["PATH"] = f"{place / 'bin'}:{os.environ['PATH']}"
    shared = Path(f"target/chaos/node-{tree_digest()}").resolve()
    if not shared.exists():
        asyncio.run(install(Target("a", "root@a")))
        with contextlib.suppress(OSError):  # somebody else did so
            (home / ".local").rename(shared)
    if not (home / ".local").exists():
        (home / ".local").symlink_to(shared)
    return home


def _await_end_of_node(place: Path) -> None:
    """One that the controller has left removes all by itself."""
    until = time.monotonic() + stretched_s(LEASE_S + GONE_S)
    while left := list(place.glob("a/*/u*/native*")):
        if time.monotonic() > until:
            raise FaultFoundError(f"the node has not removed {left[0]}")
        time.sleep(0.2)


def _put_liar_before(kind: str) -> None:
    """Of all that this process and the controllers that it forks start as an agent."""
    if kind == "native":
        os.environ["ULLAGE_HONEST_AGENT"] = str(client.binary())
        os.environ["ULLAGE_AGENT"] = str(_LIAR)
        return
    if kind == "qemu":
        QemuProcess._port_streams = _port_of_liar  # type: ignore[assignment,method-assign]
        return
    start = Transport.start

    async def lying(
        argv: Sequence[str], stderr: Path | None, env: Mapping[str, str] | None, name: str
    ) -> Transport:
        return await start([str(_LIAR), *argv], stderr, env, name)

    Transport.start = lying  # type: ignore[method-assign]


async def _port_of_liar(vm: QemuProcess) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A VM's port, with the liar between; it ends with the controller."""
    port, vm._port = vm._port, None
    assert port is not None
    ours, theirs = socket.socketpair()
    with port, theirs:
        subprocess.Popen(
            [str(_LIAR), "--port", str(port.fileno())],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            pass_fds=(port.fileno(),),
        )
    return await asyncio.open_unix_connection(sock=ours)


def _check_terminal(controller: Controller) -> None:
    if "\x1b" in controller.stderr:
        raise FaultFoundError("an escape of the guest's reached the terminal")


def _check_figures(attacked: Attacked) -> None:
    """What is called ok is possible: within what the controller itself saw."""
    for line in attacked.journal.splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["event"] != "trial" or event["status"] != "ok":
            continue
        window_s = (event["end_ns"] - event["start_ns"]) / 1e9
        seconds = event["metrics"]["seconds"]
        cpu_s = event["metrics"].get("cpu_seconds", 0.0)
        if not 0 < seconds <= window_s + 1e-3:
            raise FaultFoundError(f"{seconds} s in a window of {window_s} s are called ok")
        if not 0 <= cpu_s <= (os.cpu_count() or 1) * (seconds + 0.1):
            raise FaultFoundError(f"{cpu_s} CPU seconds in {seconds} s are called ok")


def _check_shown(attacked: Attacked) -> None:
    folder = attacked.folder
    if folder is None:
        return
    shown = Controller(["show", str(folder)], attacked.case.place)
    if not shown.gone(GONE_S):
        shown.kill()
        raise FaultFoundError("`show` of it does not end")
    check_words(shown)


CAMPAIGN: Final = Campaign(
    name="lying-agents",
    figure="lying agents through `ullage run`",
    reach=f"≥ 100 lies; every run ends within {DEADLINE_S:g} s; ≤ 500 MB",
    cases=_cases,
    play=play,
)
