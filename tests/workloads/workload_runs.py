"""Runs a workload's tasks as plain processes on this host, and bends their outputs for tests."""

import math
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ullage.runs.events import Usage
from ullage.workloads.base import Context, Output, Parameters, Task, Workload

SEED = 42


def context_in(directory: Path, workload: Workload[Any], parameters: Parameters) -> Context:
    return Context(
        addresses={role.name: "127.0.0.1" for role in workload.roles(parameters)},
        cpus=2,
        memory_bytes=1 << 20,
        seed=SEED,
        data=str(directory),
        workspace=str(directory),
    )


def run(workload: Workload[Any], parameters: Parameters, directory: Path) -> dict[str, Output]:
    """Prepare, then the trial: services become ready, the others run and end."""
    context = context_in(directory, workload, parameters)
    for task in workload.prepare(parameters, context):
        prepared = finish(task, start(task, directory), directory)
        assert prepared.status == 0, prepared.stderr
    return run_trial(workload, parameters, directory)


def run_trial(
    workload: Workload[Any], parameters: Parameters, directory: Path
) -> dict[str, Output]:
    tasks = workload.tasks(parameters, context_in(directory, workload, parameters))
    services = {task.role: start(task, directory) for task in tasks if task.service}
    try:
        for task in tasks:
            if task.service:
                wait_until_ready(task, services[task.role], directory)
        workers = {task.role: start(task, directory) for task in tasks if not task.service}
        by_role = {task.role: task for task in tasks}
        outputs = {r: finish(by_role[r], process, directory) for r, process in workers.items()}
        for task in workload.after(parameters, context_in(directory, workload, parameters)):
            outputs[task.role] = finish(task, start(task, directory), directory)
    finally:
        for process in services.values():
            process.kill()
            process.wait()
    return outputs


def checked(
    workload: Workload[Any], parameters: Parameters, outputs: Mapping[str, Output]
) -> dict[str, float]:
    """Check, parse, and compare with what the workload declares; all figures are numbers."""
    workload.check(parameters, outputs)
    figures = workload.parse(parameters, outputs)
    scalars = {name: value for name, value in figures.items() if isinstance(value, float)}
    assert scalars == figures
    assert all(math.isfinite(value) and value >= 0 for value in scalars.values())
    metrics = workload.metrics_of(parameters)
    assert set(scalars) <= {metric.name for metric in metrics}
    assert all(scalars[metric.name] > 0 for metric in metrics if metric.primary)
    return scalars


class Started(subprocess.Popen[bytes]):
    """It knows since when: it may work long before somebody waits for it."""

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        self.began = time.monotonic()
        super().__init__(argv, **options)


def start(task: Task, directory: Path) -> Started:
    with (
        (directory / f"{task.role}.stdout").open("wb") as stdout,
        (directory / f"{task.role}.stderr").open("wb") as stderr,
    ):
        return Started(
            task.argv, cwd=task.cwd, env={**os.environ, **task.env}, stdout=stdout, stderr=stderr
        )


def finish(task: Task, process: Started, directory: Path) -> Output:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Output(
        status=process.returncode if process.returncode >= 0 else None,
        signal=-process.returncode if process.returncode < 0 else None,
        stdout=(directory / f"{task.role}.stdout").read_text("utf-8", "replace"),
        stderr=(directory / f"{task.role}.stderr").read_text("utf-8", "replace"),
        seconds=time.monotonic() - process.began,
        usage=Usage(
            user_s=used.ru_utime, system_s=used.ru_stime, max_rss_bytes=used.ru_maxrss * 1024
        ),
    )


def wait_until_ready(task: Task, process: Started, directory: Path) -> None:
    assert task.ready is not None
    deadline = time.monotonic() + 120
    while task.ready not in (directory / f"{task.role}.stdout").read_text():
        assert process.poll() is None, (directory / f"{task.role}.stderr").read_text()
        assert time.monotonic() < deadline, f"{task.argv} never said {task.ready}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def printing(outputs: Mapping[str, Output], role: str, text: str) -> dict[str, Output]:
    """The same outputs, but `role` printed `text`."""
    return {**outputs, role: replace(outputs[role], stdout=text)}


def without_a_line(text: str) -> Iterator[str]:
    """The text without its first line that says something, without its second …"""
    lines = text.split("\n")
    for i, content in enumerate(lines):
        if content:
            yield "\n".join(lines[:i] + lines[i + 1 :])
