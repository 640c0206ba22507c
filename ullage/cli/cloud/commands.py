"""`ullage cloud`: clouds that a plan may name; what runs have there, and whether it works."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.options import Json
from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import INSTANCE_NOT_REMOVED, UllageError

if TYPE_CHECKING:
    from ullage.environments.clouds.driver import Driver, Machine
    from ullage.experiments.cloud_check import Step

cloud_app = typer.Typer(no_args_is_help=True)
_REMOVAL_S: Final = 600.0
"""As a plan's `deadline_s` is by itself."""

ProviderArgument = Annotated[
    str, typer.Argument(help="openstack, ec2, opennebula, cloudstack", show_default=False)
]
CloudOption = Annotated[
    str | None, typer.Option("--cloud", help="As in a plan: `cloud`.", show_default=False)
]
RegionOption = Annotated[
    str | None, typer.Option("--region", help="As in a plan: `region`.", show_default=False)
]
EndpointOption = Annotated[
    str | None, typer.Option("--endpoint", help="As in a plan: `endpoint`.", show_default=False)
]
TagOption = Annotated[
    str | None, typer.Option("--tag", help="Of that run only.", show_default=False)
]


@cloud_app.callback()
def _cloud() -> None:
    """Clouds that a plan may name."""


@cloud_app.command("list")
def list_command(
    provider: ProviderArgument,
    cloud: CloudOption = None,
    region: RegionOption = None,
    endpoint: EndpointOption = None,
    tag: TagOption = None,
    names: Annotated[bool, typer.Option("--names", help="Names only, one a line.")] = False,
    as_json: Json = False,
) -> None:
    """List what ullage has made in a cloud, as the cloud tells it: by tag, whoever made it."""
    machines = _machines(_driver(provider, cloud, region, endpoint), tag)
    if as_json:
        print_json([{"name": m.name, "id": m.id, "tag": m.tag, "state": m.words} for m in machines])
    for machine in () if as_json else machines:
        shown = machine.name if names else f"{machine.name}: {machine.id}, {machine.words}"
        stdout.print(escape(shown), soft_wrap=True, highlight=False)


@cloud_app.command("remove")
def remove_command(
    provider: ProviderArgument,
    cloud: CloudOption = None,
    region: RegionOption = None,
    endpoint: EndpointOption = None,
    tag: TagOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="That instance only.", show_default=False)
    ] = None,
) -> None:
    """Remove what a run has left in a cloud, by its tag: also from another machine than the run's.

    On the machine of the run `ullage clean` does it, and knows which runs still live. What the
    cloud still has after 600 s is an error.
    """
    if tag is None:
        raise typer.BadParameter("say --tag; `ullage cloud list` shows it")
    driver = _driver(provider, cloud, region, endpoint)
    gone = [name] if name else sorted({machine.name for machine in _machines(driver, tag)})
    for one in gone:
        _remove(driver, one, tag)
        stderr.print(f"{escape(one)} is gone", highlight=False)


@cloud_app.command("check")
def check_command(
    plan: Annotated[Path, typer.Argument(help="A plan with a cloud in it.", show_default=False)],
    name: Annotated[
        str | None, typer.Argument(help="That environment only.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Make one instance in each cloud of a plan, and remove it: what works, how long it takes.

    It says when the cloud answered, ran the instance, let us in and had removed it; how well its
    clock is known, and what it cost.
    """
    import asyncio

    from ullage.experiments import cloud_check
    from ullage.plan import matrix, schema
    from ullage.plan.image import planned_image

    read, document = schema.load(plan)
    cells = matrix.resolve(read, document)
    environments = [e for e in cloud_check.in_clouds(cells) if name in {None, e.key, e.name}]
    if not environments:
        raise typer.BadParameter(
            f"{plan} has no environment in a cloud{(name and f': {name}') or ''}"
        )
    image = asyncio.run(planned_image(read, cells, lambda _: None))
    seen = [(one, asyncio.run(cloud_check.check(one, image, _show_step))) for one in environments]
    if as_json:
        print_json([{**asdict(of), "cost": of.cost(one.price)} for one, of in seen])
    for one, of in () if as_json else seen:
        bound_us, rtt_us = (of.clock_bound_ns or 0) / 1e3, (of.rtt_ns or 0) / 1e3
        cost = of.cost(one.price)
        paid = f"; it cost {cost:.2g} {one.price.currency}" if cost and one.price else ""
        text = f"{one.key}, {of.label}: clock known to ± {bound_us:,.0f} µs"
        text += f" (round trip {rtt_us:,.0f} µs); lived {of.lived_s:.1f} s{paid}"
        stdout.print(escape(text), soft_wrap=True, highlight=False)


def _show_step(step: Step) -> None:
    stderr.print(f"{step.seconds:7.1f} s  {escape(step.words)}", soft_wrap=True, highlight=False)


def _remove(driver: Driver, name: str, tag: str) -> None:
    import asyncio
    import time

    from ullage.environments.clouds.calls import Calls, Deadline, pauses_s

    calls, deadline = Calls(driver, name), Deadline(_REMOVAL_S)
    for pause_s in pauses_s():
        if asyncio.run(calls.ask(driver.remove, name, tag)):
            return
        if deadline.passed:
            raise UllageError(
                INSTANCE_NOT_REMOVED,
                name=name,
                reason=f"{driver.title} still has it after {deadline.seconds:g} s",
                command="the cloud's own client",
            )
        time.sleep(pause_s)


def _machines(driver: Driver, tag: str | None) -> list[Machine]:
    import asyncio

    from ullage.environments.clouds.calls import Calls

    return asyncio.run(Calls(driver, tag or "every instance").ask(driver.machines, tag))


def _driver(name: str, cloud: str | None, region: str | None, endpoint: str | None) -> Driver:
    """The cloud that these options lead to."""
    from ullage import environments
    from ullage.environments.clouds.provider import CloudProvider

    clouds = [p for p in environments.PROVIDERS if issubclass(p, CloudProvider)]
    chosen = next((p for p in clouds if p.name == name), None)
    if chosen is None:
        known = ", ".join(p.name for p in clouds)
        raise typer.BadParameter(f"{name!r} is no cloud; there are: {known}")
    reach = {"cloud": cloud, "region": region, "endpoint": endpoint}
    fields = {key: value for key, value in reach.items() if value is not None}
    for key in fields:
        if key not in chosen.options_model.model_fields:
            raise typer.BadParameter(f"{name} has no --{key}")
    nothing = {"flavor": "none", "boot_image": "none"}
    return chosen(chosen.options_model.model_validate(nothing | fields)).driver()
