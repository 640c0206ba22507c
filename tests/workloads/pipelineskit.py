"""What the tests of `dedup` and `ferret` share."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ullage.host import binaries
from ullage.workloads.base import InvalidTrialError, Output, Workload
from ullage.workloads.pipelines.programs import PROGRAM

DATA = Path(__file__).parent / "data"


def need_program() -> None:
    """Skips when the program was not built."""
    if not (binaries.DIRECTORY / PROGRAM).is_file():
        pytest.skip(f"{PROGRAM} is not built: `make programs` does it")


def place_program(directory: Path) -> Path:
    """What the engine does with `files`."""
    need_program()
    shutil.copy(binaries.program(PROGRAM), directory / PROGRAM)
    return directory


def recorded(name: str) -> Output:
    """A real result; the process took a little longer than what it timed."""
    text = (DATA / name).read_text()
    seconds = json.loads(text)["seconds"] + 0.2
    return Output(status=0, signal=None, stdout=text, stderr="", seconds=seconds)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the leaves of a JSON value are."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    if not items:
        yield at
    for key, below in items:
        yield from paths(below, (*at, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another leaf."""
    changed = copy.deepcopy(value)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = new
    return changed


def leaves() -> st.SearchStrategy[Any]:
    """What might stand in the place of a leaf."""
    numbers = st.floats(allow_nan=False) | st.integers(-1, 1 << 70)
    return st.none() | st.booleans() | numbers | st.text(max_size=8) | st.just([]) | st.just({})


def survives(workload: Workload[Any], parameters: Any, output: Output) -> None:
    """Either it is refused, or all its figures are finite and positive, and the facts are text."""
    outputs = {"main": output}
    try:
        workload.check(parameters, outputs)
    except InvalidTrialError as error:
        assert str(error).isprintable()
        return
    figures = workload.parse(parameters, outputs)
    assert figures
    assert all(isinstance(figure, float) and 0 < figure < 1e30 for figure in figures.values())
    assert all(isinstance(fact, str) for fact in workload.facts(parameters, outputs).values())


def bent(output: Output, bend: Callable[[dict[str, Any]], object]) -> Output:
    """The same output with its JSON changed in place."""
    result = json.loads(output.stdout)
    bend(result)
    return Output(
        status=output.status,
        signal=output.signal,
        stdout=json.dumps(result),
        stderr=output.stderr,
        seconds=output.seconds,
    )
