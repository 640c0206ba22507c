"""`ullage._elastic`: what its stub says, what it refuses, and that it can be stopped."""

import ast
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ullage import _elastic

STUB = ast.parse((Path(_elastic.__file__).parent / "_elastic.pyi").read_text())
CLASSES = {node.name for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}

SMALL: dict[str, Any] = {
    "application": {"room": 10},
    "arrivals": {"kind": "poisson", "rate_hz": 1.0},
    "sessions": 500,
    "watch": {"kind": "fixed", "s": 60.0},
    "patience": {"kind": "fixed", "s": 5.0},
    "allocation": {"rows": [{"stages": [{"name": "all", "time": {"kind": "fixed", "s": 3.0}}]}]},
}
ENDLESS = SMALL | {"sessions": 10**12, "points": 0, "arrivals": {"kind": "poisson", "rate_hz": 1e6}}


def test_the_stub_has_the_same_names_parameters_and_defaults() -> None:
    public = {name for name in vars(_elastic) if not name.startswith("_")}
    assert public == CLASSES | set(FUNCTIONS)
    for name, node in FUNCTIONS.items():
        real = inspect.signature(getattr(_elastic, name)).parameters.values()
        parameters = node.args
        bare = len(parameters.args) - len(parameters.defaults)
        assert [
            (parameter.name, parameter.default is not parameter.empty) for parameter in real
        ] == [(parameter.arg, place >= bare) for place, parameter in enumerate(parameters.args)]
        assert getattr(_elastic, name).__doc__


def test_a_simulation_is_the_same_each_time_and_another_with_another_seed() -> None:
    text = json.dumps(SMALL)
    outcome = json.loads(_elastic.simulate(text))
    assert outcome["viewers"]["requests"] == 500
    assert json.loads(_elastic.simulate(text)) == outcome
    assert json.loads(_elastic.simulate(json.dumps(SMALL | {"seed": 7}))) != outcome


def test_what_cannot_be_simulated_is_named() -> None:
    bad = SMALL | {"arrivals": {"kind": "poisson", "rate_hz": -1.0}}
    for refuse in (_elastic.check, _elastic.simulate):
        with pytest.raises(_elastic.SpecError) as error:
            refuse(json.dumps(bad))
        field, problem = error.value.args
        assert field == "arrivals.rate_hz"
        assert "-1" in problem
    _elastic.check(json.dumps(SMALL))
    assert "elastic-movie" in _elastic.policies()


def test_what_the_progress_raises_ends_it() -> None:
    calls = []

    def enough(requests: int, at_s: float, part: float) -> None:
        calls.append((requests, at_s, part))
        if len(calls) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _elastic.simulate(json.dumps(ENDLESS), enough)
    assert len(calls) == 3
    assert calls == sorted(calls)
    assert calls[-1][0] > 0


def test_others_run_meanwhile() -> None:
    begun, over = threading.Event(), threading.Event()

    def until(*_: float) -> None:
        begun.set()
        if over.is_set():
            raise InterruptedError

    def simulate() -> None:
        with pytest.raises(InterruptedError):
            _elastic.simulate(json.dumps(ENDLESS), until)

    thread = threading.Thread(target=simulate)
    thread.start()
    # Were it not so, this would come only after all of 10^12 sessions.
    assert begun.wait(60)
    over.set()
    thread.join(60)
    assert not thread.is_alive()


def test_ctrl_c_ends_it() -> None:
    program = (
        "import sys; from ullage import _elastic\n"
        "calls = []\n"
        "def tell(*_):\n"
        "    calls or print('on', flush=True); calls.append(1)\n"
        "_elastic.simulate(sys.argv[1], tell)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(ENDLESS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in stderr
    assert process.returncode != 0
