"""`ullage weigh`: the options. What reads, computes and prints is imported when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import typer

from ullage.resultscli import RUNS, Json, RunArgument, RunsOption, print_json
from ullage.runs import Resource

T = TypeVar("T")


def weigh_command(
    run: RunArgument = None,
    *,
    weights: Annotated[
        list[str],
        typer.Option(
            "--weights",
            help="What the machine is for: `cpu=0.1,memory=0.2,disk=0.6,network=0.1`; they add up"
            " to 1. `ENVIRONMENT:cpu=…` for one environment; may be repeated.",
        ),
    ],
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "--environment",
            help="Weigh only this one; may be repeated.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            help="A node that holds copies of environments: `big=vm:4,container`; may be repeated,"
            " and all of them make a system.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            help="Part of a node's resource that each instance has: `disk=0.25`, or"
            " `ENVIRONMENT:disk=25%`; may be repeated.",
            show_default=False,
        ),
    ] = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Make one figure of a run for each machine, node and system, given what they are for."""
    from ullage.analysis import overhead, weighing  # noqa: PLC0415
    from ullage.analysis.weights import Wanted  # noqa: PLC0415
    from ullage.folder import RunFolder, chosen  # noqa: PLC0415

    shared, own = _weights(weights)
    wanted = Wanted(
        weights=shared,
        own=own,
        environments=tuple(environment or ()),
        nodes=_nodes(node or ()),
        shares=_shares(share or ()),
    )
    folder = RunFolder.open(chosen(run, runs))
    found = weighing.weigh(folder, overhead.analyse(folder), wanted)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    from ullage import weighshow  # noqa: PLC0415

    weighshow.show(found)


def _weights(
    given: Iterable[str],
) -> tuple[dict[Resource, float], dict[str, dict[Resource, float]]]:
    """Those of all environments, and those of single ones."""
    from ullage.analysis import weights as asked  # noqa: PLC0415

    shared: dict[Resource, float] = {}
    own: dict[str, dict[Resource, float]] = {}
    for text in given:
        key, rest = asked.prefixed(text)
        found = _read("--weights", asked.weights, rest)
        if own.get(key) if key else shared:
            raise typer.BadParameter(f"--weights: {text!r}: those of {key or 'all'} stand twice")
        if key:
            own[key] = found
        else:
            shared = found
    if not shared:
        raise typer.BadParameter("--weights: none are for all environments: write one without `:`")
    return shared, own


def _nodes(given: Iterable[str]) -> dict[str, dict[str, int]]:
    from ullage.analysis import weights as asked  # noqa: PLC0415

    made: dict[str, dict[str, int]] = {}
    for text in given:
        name, held = _read("--node", asked.node, text)
        if name in made:
            raise typer.BadParameter(f"--node: {name!r} stands twice")
        made[name] = held
    return made


def _shares(given: Iterable[str]) -> dict[tuple[str | None, Resource], float]:
    from ullage.analysis import weights as asked  # noqa: PLC0415

    made: dict[tuple[str | None, Resource], float] = {}
    for text in given:
        key, resource, share = _read("--share", asked.share, text)
        made[key, resource] = share
    return made


def _read(option: str, how: Callable[[str], T], text: str) -> T:
    try:
        return how(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None
