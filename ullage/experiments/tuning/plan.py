"""The plans of a tuning: one whose environments are the runs of a design, one of what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from ullage.experiments.tuning import screening
from ullage.experiments.tuning.settings import TuneSetting
from ullage.stats import LEAST_PAIRS

BASE: Final = "as-it-was"
"""The run of a design in which nothing is changed: the plan's baseline."""
PROVEN: Final = "proven"
TUNED: Final = "tuned"
_PREFIX: Final = "changed-"


@dataclass(frozen=True)
class TuneRequest:
    """What the user gave."""

    workload: Mapping[str, Any]
    """As it stands in a plan."""
    blocks: int = 3
    cpus: int = 1
    memory: str = "512MiB"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of every VM: `accel: tcg`, `boot_deadline_s`."""


def names(settings: Sequence[TuneSetting]) -> list[str]:
    """Of the environments, run by run of the design: `changed-01`, where the second setting is."""
    return [
        _PREFIX + "".join("1" if level > 0 else "0" for level in levels)
        if max(levels) > 0
        else BASE
        for levels in screening.design(len(settings))
    ]


def campaign(request: TuneRequest, settings: Sequence[TuneSetting]) -> str:
    """The plan that runs the design: a block has each of its runs once.

    VMs are made anew for every block: what a VM has by chance from its making is noise, too.
    """
    design = screening.design(len(settings))
    environments = {
        name: _machine(
            request,
            {
                setting.name: setting.value(level)
                for setting, level in zip(settings, levels, strict=True)
            },
        )
        for name, levels in zip(names(settings), design, strict=True)
    }
    return _text(
        request,
        f"tune-{request.workload['name']}",
        environments,
        BASE,
        {"min": request.blocks, "max": request.blocks},
    )


def confirmation(
    request: TuneRequest,
    settings: Sequence[TuneSetting],
    proven: Sequence[TuneSetting],
    better: Sequence[TuneSetting],
) -> str:
    """The plan that compares a VM with what is proven changed, and one with all that seems better,
    to one with nothing changed.
    """
    choices = {BASE: (), PROVEN: proven, TUNED: better}
    environments = {
        name: _machine(
            request,
            {
                setting.name: setting.changed if setting in changed else setting.as_it_was
                for setting in settings
            },
        )
        for name, changed in choices.items()
        if name == BASE or (changed and not (name == PROVEN and list(changed) == list(better)))
    }
    blocks = {"min": LEAST_PAIRS, "max": 40, "until": {"verdicts": "all"}}
    return _text(request, f"tuned-{request.workload['name']}", environments, BASE, blocks)


def _machine(request: TuneRequest, values: Mapping[str, Any]) -> dict[str, Any]:
    """A VM of a plan; `disk.cache` goes inside."""
    machine: dict[str, Any] = {"provider": "qemu", **request.options}
    for name, value in values.items():
        outer, _, inner = name.partition(".")
        if value is None:
            continue
        if inner:
            machine.setdefault(outer, {})[inner] = value
        else:
            machine[outer] = value
    return machine


def _text(
    request: TuneRequest,
    name: str,
    environments: Mapping[str, Any],
    baseline: str,
    blocks: Mapping[str, Any],
) -> str:
    plan = {
        "name": name,
        "baseline": baseline,
        "resources": {"cpus": request.cpus, "memory": request.memory},
        "environments": dict(environments),
        "workloads": [dict(request.workload)],
        "blocks": dict(blocks),
        "repeat": {"instances": 1},
    }
    return yaml.safe_dump(plan, sort_keys=False, width=1000)
