"""`ullage weigh`: one figure for a machine. What computes and prints is imported when needed."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ullage.cli.options import Json, RunArgument, RunsOption
from ullage.common.console import print_json
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.runs.records import Resource

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
    """Make one figure of a run for a machine, given what it is for.

    Nodes of machines, and systems of nodes, get theirs too.
    """
    from ullage.analysis import overhead
    from ullage.analysis.weigh import weighing
    from ullage.analysis.weigh.weights import WeighRequest
    from ullage.cli.output import weigh as output
    from ullage.runs.reader import RunFolder, chosen

    general, own = _weights(weights)
    request = WeighRequest(
        weights=general,
        own=own,
        environments=tuple(environment or ()),
        nodes=_parsed_nodes(node or ()),
        shares=_shares(share or ()),
    )
    folder = RunFolder.open(chosen(run, runs))
    weighed = weighing.weigh(folder, overhead.analyse(folder), request)
    if as_json:
        print_json(weighed.model_dump(mode="json"))
    else:
        output.show(weighed)


def _weights(
    texts: Iterable[str],
) -> "tuple[dict[Resource, float], dict[str, dict[Resource, float]]]":
    """Those of all environments, and those of single ones."""
    from ullage.analysis.weigh import weights

    general: dict[Resource, float] = {}
    own: dict[str, dict[Resource, float]] = {}
    for text in texts:
        environment, assignments = weights.prefixed(text)
        by_resource = _read("--weights", weights.weights, assignments)
        if own.get(environment) if environment else general:
            twice = f"those of {environment or 'all'} stand twice"
            raise typer.BadParameter(f"--weights: {text!r}: {twice}")
        if environment:
            own[environment] = by_resource
        else:
            general = by_resource
    if not general:
        raise typer.BadParameter("--weights: none are for all environments: write one without `:`")
    return general, own


def _parsed_nodes(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    from ullage.analysis.weigh import weights

    nodes: dict[str, dict[str, int]] = {}
    for text in texts:
        name, copies = _read("--node", weights.node, text)
        if name in nodes:
            raise typer.BadParameter(f"--node: {name!r} stands twice")
        nodes[name] = copies
    return nodes


def _shares(texts: Iterable[str]) -> "dict[tuple[str | None, Resource], float]":
    from ullage.analysis.weigh import weights

    shares: dict[tuple[str | None, Resource], float] = {}
    for text in texts:
        environment, resource, share = _read("--share", weights.share, text)
        shares[environment, resource] = share
    return shares


def _read(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None
