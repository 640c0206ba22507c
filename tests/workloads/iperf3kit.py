"""A real run of iperf3 for its tests, and how to bend what it printed."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

from tests.workloads.workload_runs import free_port, printing, run
from ullage.workloads.base import Output
from ullage.workloads.network.iperf3 import Iperf3, Iperf3Parameters

IPERF3 = Iperf3()


@cache
def sample() -> tuple[Iperf3Parameters, dict[str, Output]]:
    """A real run, made once."""
    parameters = Iperf3Parameters(streams=2, port=free_port())
    with TemporaryDirectory() as directory:
        return parameters, run(IPERF3, parameters, Path(directory))


def bent(path: str, value: Any, outputs: dict[str, Output] | None = None) -> dict[str, Output]:
    """The sample with one field of its JSON changed; without it when the value is `...`."""
    outputs = outputs or sample()[1]
    result = deepcopy(json.loads(outputs["client"].stdout))
    *parents, last = path.split(".")
    inner = result
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return printing(outputs, "client", json.dumps(result))


def bent_anywhere(data: st.DataObject, outputs: dict[str, Output]) -> dict[str, Output]:
    """With some of the client's text replaced by other text."""
    text = outputs["client"].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    return printing(outputs, "client", text[:at] + data.draw(st.text(max_size=12)) + text[until:])
