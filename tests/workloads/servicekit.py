"""A trial of `service` with plain processes of this host, and what it says of it."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workloads.workload_runs import context_in, finish, start, wait_until_ready
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.web.service import Service, ServiceParameters

SERVICE = Service()


def outputs(chosen: ServiceParameters, folder: Path) -> dict[str, Output]:
    """Of one trial, by plain processes of this host."""
    for name, file in SERVICE.files(chosen).items():
        (folder / name).symlink_to(file)
    minder, client = SERVICE.tasks(chosen, context_in(folder, SERVICE, chosen))
    client = replace(client, cwd=str(folder))
    process = start(minder, folder)
    try:
        wait_until_ready(minder, process, folder)
        loaded = finish(client, start(client, folder), folder)
    finally:
        os.kill(process.pid, signal.SIGTERM)
    return {"server": finish(minder, process, folder), "client": loaded}


def invalid(chosen: ServiceParameters, printed: dict[str, Output]) -> str:
    with pytest.raises(InvalidTrialError) as refused:
        SERVICE.check(chosen, printed)
    return str(refused.value)
