"""Options and arguments that several commands have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ullage.plan.schema import Plan

_ADDRESS = re.compile(r"(https?|s3)://")
_STORE = "s3:"
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A run folder, or its name in --runs; without one, the newest there.",
        show_default=False,
    ),
]


def _is_store(runs: Path) -> bool:
    return str(runs).lower().startswith(_STORE)


def _here(runs: Path) -> Path:
    """STORE_FOR_READERS, ADDRESS_HAS_KEY."""
    if _is_store(runs):
        from ullage.common.errors import STORE_FOR_READERS, UllageError
        from ullage.runs.elsewhere.fetched import refuse_key

        refuse_key(str(runs))
        address = f"s3://{str(runs)[len(_STORE) :].strip('/').partition('?')[0]}"
        raise UllageError(STORE_FOR_READERS, address=address)
    return runs


def _anywhere(runs: Path) -> Path:
    """A folder; of a store, one with its runs in this user's cache."""
    if not _is_store(runs):
        return runs
    from ullage.common.console import stderr
    from ullage.common.errors import UllageError
    from ullage.runs.elsewhere.stores import Store, mirrored

    def leave_out(address: str, error: UllageError) -> None:
        text = f"warning: left out {address}: {error.message}"
        stderr.print(text, soft_wrap=True, markup=False)

    def say(text: str) -> None:
        stderr.print(text, soft_wrap=True, markup=False)

    store = Store.named(str(runs))
    if store is None:
        raise typer.BadParameter(f"--runs: {str(runs)!r} is not s3://BUCKET/PREFIX")
    return mirrored(store, leave_out, say)


RunsOption = Annotated[Path, typer.Option("--runs", help="Where run folders lie.", callback=_here)]
ReadRunsOption = Annotated[
    Path,
    typer.Option(
        "--runs",
        help="Where run folders lie; or s3://BUCKET/PREFIX, where `ullage upload` put them.",
        callback=_anywhere,
    ),
]
ReadOnly = Annotated[
    bool,
    typer.Option("--read-only", help="Write nothing into run folders: what is derived is cached."),
]
PlanArgument = Annotated[Path | None, typer.Argument(help="The plan.", show_default=False)]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Take up an interrupted run: its folder, or its name in --runs.",
        show_default=False,
    ),
]
NodeOption = Annotated[
    str | None,
    typer.Option("--node", help="On another machine: USER@HOST, by ssh.", show_default=False),
]
NodeConfigOption = Annotated[
    Path | None,
    typer.Option("--node-config", help="For ssh, in place of ~/.ssh/config.", show_default=False),
]
NodeSudoOption = Annotated[bool, typer.Option("--node-sudo", help="Become root by `sudo -n`.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format", help="A table: csv, json, latex or parquet. A picture: svg, pdf or png."
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="A file; else standard output.")]


@contextmanager
def run_folders(runs_given: Iterable[str], root: Path) -> Iterator[list[Path]]:
    """The folders that a user means: paths, names in `root`, or addresses, here for so long."""
    from ullage.runs.reader import named

    with ExitStack() as stack:
        yield [
            stack.enter_context(_fetched(run)) if _ADDRESS.match(run) else named(Path(run), root)
            for run in runs_given
        ]


@contextmanager
def _fetched(address: str) -> Iterator[Path]:
    from ullage.common.console import stderr
    from ullage.runs.elsewhere.fetched import fetched

    with fetched(address) as folder:
        stderr.print(f"fetched: {folder.name}", soft_wrap=True, markup=False)
        yield folder


def pairs(option: str, texts: Iterable[str] | None, form: str) -> dict[str, str]:
    """`A=B`, repeated, as A → B."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value) or (option == "--again" and name == value):
            raise typer.BadParameter(f"{option}: {text!r} is not {form}")
        values[name] = value
    return values


def labelled(plan: Plan, texts: Iterable[str] | None) -> Plan:
    """With the labels of `--label`."""
    from pydantic import ValidationError

    from ullage.plan import schema

    try:
        return schema.labelled(plan, pairs("--label", texts, "NAME=TEXT"))
    except ValidationError:
        raise typer.BadParameter(
            "--label: up to 16 names of small letters, digits, _ and -, each with a line of up to"
            " 200 plain characters"
        ) from None


def seconds(option: str, text: str, *, none: bool = False) -> float:
    """A duration as in a plan; with `none` it may be 0."""
    from pydantic import TypeAdapter, ValidationError

    from ullage.common.faults import first_message
    from ullage.common.quantities import Delay, Seconds

    kind: TypeAdapter[float] = TypeAdapter(Delay if none else Seconds)
    try:
        return kind.validate_python(text)
    except ValidationError as error:
        raise typer.BadParameter(f"{option}: {first_message(error)}") from None


def share(option: str, text: str, example: str, above: float = 0) -> float:
    """A fraction below 1 or a percentage, as in a plan."""
    from pydantic import TypeAdapter, ValidationError

    from ullage.common.quantities import Fraction

    try:
        fraction: float = TypeAdapter(Fraction).validate_python(text)
    except ValidationError:
        fraction = 0.0
    if not fraction > above:
        form = f"a fraction between {above:g} and 1, or a percentage such as {example}"
        raise typer.BadParameter(f"{option}: {text!r} is not {form}")
    return fraction
