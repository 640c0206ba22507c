"""Workload `provisioning`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

from pydantic import ConfigDict, Field, model_validator

from ullage.common.quantities import Bytes, format_bytes
from ullage.environments.provisioning import allocate, image_copy, page_cache
from ullage.environments.provisioning.allocate import Application, Site
from ullage.host.image import require_on_host
from ullage.runs.allocations import Batch, Copy, InstanceSteps, Step
from ullage.runs.records import Coordinate, Metric
from ullage.workloads import nginx, sources
from ullage.workloads.base import Conducted, Figures, InvalidTrialError, Outputs, Parameters, Role
from ullage.workloads.output import read

MOST: Final = 200
"""Instances at once: the run's network has 253 places."""

MOST_HELD: Final = 0.1
"""Of a cold image: what the run's own instances have mapped of it."""

PORT: Final = 8080
LONGEST_RECORD: Final = 1 << 20

_UNTIL_UP: Final[tuple[Step, ...]] = ("asked", "chosen", "copied", "hello", "up")
_SERVED: Final[tuple[Step, ...]] = ("up", "port_open", "replied")
_SINCE_ASKED: Final[dict[str, Step]] = {
    "hello_time": "hello",
    "address_time": "addressed",
    "port_closed_time": "port_closed",
    "port_open_time": "port_open",
    "reply_time": "replied",
}
_ORDER: Final = Coordinate(name="instance", unit="1")

_NGINX: Final = f"""\
daemon off;
user root;
worker_processes 1;
pid server.pid;
error_log stderr crit;
events {{}}
http {{
  access_log off;
  client_body_temp_path temp;
  proxy_temp_path temp;
  fastcgi_temp_path temp;
  uwsgi_temp_path temp;
  scgi_temp_path temp;
  server {{
    listen {PORT};
    location / {{ return 200; }}
  }}
}}
"""
"""The least that serves: what is timed is the instance, not the server's settings."""


class ProvisioningParameters(Parameters):
    """How many instances, from what, and what has to work in them."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    count: int = Field(
        1, ge=1, le=MOST, strict=True, description="instances that are asked for at the same time"
    )
    copy_: Copy = Field(
        "backing",
        alias="copy",
        description="`backing`: all stand on one image that nobody writes; `real`: each has every "
        "byte of it copied first",
    )
    image_size: Bytes | None = Field(
        None,
        ge=1 << 20,
        description="of `copy: real`: bytes of an image, `2800MB`; it is filled up with bytes that "
        "nobody reads; left out: as large as it is",
        exclude_if=lambda given: given is None,
    )
    cold: bool = Field(
        False,
        description="what this host's page cache holds of the image is dropped before the request, "
        "so that it is read from the disk; left out: it is as the trials before left it",
        exclude_if=lambda given: not given,
    )
    application: Literal["nginx", "none"] = Field(
        "nginx", description="the server that is started in each instance once it is up"
    )
    limit_s: float = Field(
        300.0, gt=0, le=86_400, description="an instance that takes longer fails the trial"
    )
    release_limit_s: float = Field(
        60.0, gt=0, le=86_400, description="a release that takes longer fails the trial"
    )

    @model_validator(mode="after")
    def _size_is_copied(self) -> ProvisioningParameters:
        if self.image_size is not None and self.copy_ != "real":
            raise ValueError("`image_size` is of `copy: real`: else nothing is copied")
        return self


class Provisioning(Conducted[ProvisioningParameters]):
    """Making instances and taking them away again, one or many at once, by its parts.

    All are asked for in the same moment, each is made by the environment's provider as the run's
    own ones are, and when all work, all are released in the same moment. What is measured is the
    provider: `native` is asked too, and starts a process within the limits, with a network
    namespace and a control group of its own; that is the floor under the others.

    The time of an allocation, TaR, has three parts. TeF: choosing the node, here a look at what
    memory and CPUs are left on this host. TcI: copying the image, or the layer over it, and laying
    out the disks. TiI: booting, until the agent inside has said hello, its clock is known, its
    limits are verified and, where there is a network, its address is configured. TlR is the time
    of a release, until processes, disks, network and control groups are gone. With
    `boot: systemd` a `qemu` or `lxc` environment boots a whole Debian, otherwise the agent alone.

    Instants come from events: the first bytes on the agent's pipe or virtio port, the end of a
    program, a configured address. Two things nothing tells from outside: that somebody has begun to
    listen, and that a control group has ended. They are looked for again when a tenth of the time
    has passed that was waited, or 1 ms (a group's end at first each 0.1 ms), and after at most 5
    and 10 ms: by so much these instants may be late.

    With `cold: true` the contents of the image's files are dropped from this host's page cache
    before the request; names and inodes stay, and so do pages that running programs have mapped,
    such as those of the run's own instances. A trial in which more than a tenth of the image was
    still in memory has no figures. A disk that keeps a cache of its own is not asked to forget.

    What was made is found by the run's tag: nothing stays after a failure, Ctrl-C or a limit that
    has passed; a trial in which one instance fails has no figures. Needs root.
    """

    name = "provisioning"
    resource = "other"
    packages = ("nginx",)
    source = (
        sources.ELASTIC_CLOCK,
        sources.NETWORK_PIPELINE,
    )
    parameters_model = ProvisioningParameters
    metrics = (
        Metric(
            name="allocation_time",
            unit="s",
            better="lower",
            primary=True,
            description="From the first request until the last instance was up.",
        ),
        Metric(
            name="release_time",
            unit="s",
            better="lower",
            description="From the first request for a release until nothing was left of any.",
        ),
        Metric(
            name="instance_time",
            unit="s",
            better="lower",
            description="TaR: from an instance's request until it was up, mean over all. It is the "
            "sum of the three parts.",
        ),
        Metric(
            name="choose_time",
            unit="s",
            better="lower",
            description="TeF: until its node was chosen, mean over all.",
        ),
        Metric(
            name="copy_time",
            unit="s",
            better="lower",
            description="TcI: from then until its image and its disks were there, mean over all.",
        ),
        Metric(
            name="boot_time",
            unit="s",
            better="lower",
            description="TiI: from then until it was up, mean over all.",
        ),
        Metric(
            name="instance_release_time",
            unit="s",
            better="lower",
            description="TlR: from the request for its release until nothing of it was left, mean "
            "over all.",
        ),
        Metric(
            name="hello_time",
            unit="s",
            better="lower",
            description="From its request until the agent's first word, mean over all.",
        ),
        Metric(
            name="address_time",
            unit="s",
            better="lower",
            description="From its request until its address was configured, mean over all.",
        ),
        Metric(
            name="port_closed_time",
            unit="s",
            better="lower",
            description="From its request until it first refused a connection, mean over all. "
            "Absent where the port of one was open at the first look.",
        ),
        Metric(
            name="port_open_time",
            unit="s",
            better="lower",
            description="From its request until it first took a connection, mean over all.",
        ),
        Metric(
            name="reply_time",
            unit="s",
            better="lower",
            description="From its request until the server's first good reply, mean over all.",
        ),
        Metric(
            name="allocated",
            unit="s",
            better="lower",
            coordinate=_ORDER,
            description="From the first request until the n-th instance was up.",
        ),
        Metric(
            name="replied",
            unit="s",
            better="lower",
            coordinate=_ORDER,
            description="From the first request until the n-th instance's server replied.",
        ),
        Metric(
            name="released",
            unit="s",
            better="lower",
            coordinate=_ORDER,
            description="From the first request for a release until the n-th instance was gone.",
        ),
    )

    def title(self, parameters: ProvisioningParameters) -> str:
        """`allocate 4, image copied, image cold`."""
        copied = ", image copied" if parameters.copy_ == "real" else ""
        if parameters.image_size is not None:
            copied = f", image of {format_bytes(parameters.image_size)} copied"
        cold = ", image cold" if parameters.cold else ""
        return f"allocate {parameters.count}{copied}{cold}"

    def duration_s(self, parameters: ProvisioningParameters) -> float:
        """As of containers; what a VM takes is learnt from the first trials."""
        return 0.3 + 0.1 * parameters.count

    def roles(self, parameters: ProvisioningParameters) -> Sequence[Role]:
        """The instance whose like is made, and the network that is knocked from."""
        return Role("main"), Role("network", "host")

    def feasible(self, parameters: ProvisioningParameters, node: Site) -> None:
        """ALLOCATION_NO_ROOM, ALLOCATION_NO_COPY, ALLOCATION_NOT_COLD, HOST_MISSING,
        IMAGE_LACKS_PACKAGE."""
        node.check_room(parameters.count)
        image_copy.check(parameters.copy_, node.provider, node.image)
        if node.image is not None and parameters.image_size is not None:
            image_copy.check_size(parameters.image_size, node.provider, node.image)
        if parameters.cold:
            page_cache.check(node)
        if parameters.application == "none":
            return
        if node.image is None:
            require_on_host({"nginx": "nginx"})
        else:
            node.image.require(("nginx",))

    async def make_ready(self, parameters: ProvisioningParameters, node: Site) -> None:
        """What fills the image up is written here, once in a run, and not while it is copied."""
        node.copy, node.image_size = parameters.copy_, parameters.image_size
        if node.image is not None and node.image_size is not None:
            node.filler = await image_copy.filler(
                node.image, node.provider, node.image_size, node.tag
            )

    async def conduct(self, parameters: ProvisioningParameters, node: Site, label: str) -> str:
        application = None
        if parameters.application == "nginx":
            application = Application(nginx.ARGV, PORT, files={"server.conf": _NGINX.encode()})
        held = await page_cache.cooled(node) if parameters.cold else None
        batch = await allocate.together(
            node,
            [f"{label}-{number}" for number in range(parameters.count)],
            application=application,
            allocate_limit_s=parameters.limit_s,
            release_limit_s=parameters.release_limit_s,
        )
        return batch.model_copy(update={"image_held": held}).model_dump_json() + "\n"

    def check(self, parameters: ProvisioningParameters, outputs: Outputs) -> None:
        """As many as were asked for, from what was asked for, each by all its steps in order."""
        batch = _batch(outputs)
        actual = (len(batch.instances), batch.copy_kind, batch.image_size, batch.applied)
        applied = parameters.application != "none"
        expected = (parameters.count, parameters.copy_, parameters.image_size, applied)
        if actual != expected:
            raise InvalidTrialError(f"made were {actual}, asked for {expected}")
        _check_cold(batch, cold=parameters.cold)
        names = {instance.name for instance in batch.instances}
        if len(names) != parameters.count:
            raise InvalidTrialError("two instances have one name")
        for made_instance in batch.instances:
            _check_steps(made_instance, batch.applied)
        last = max(instance.released for instance in batch.instances)
        seconds = (last - _first_request_ns(batch)) / 1e9
        if seconds > outputs["main"].seconds:
            raise InvalidTrialError(
                f"the instances say {seconds} s, the trial took {outputs['main'].seconds} s"
            )

    def parse(self, parameters: ProvisioningParameters, outputs: Outputs) -> Figures:
        batch = _batch(outputs)
        since_ns = _first_request_ns(batch)
        released = min(instance.release_asked for instance in batch.instances)
        curves = {
            "allocated": _curve([instance.steps["up"] for instance in batch.instances], since_ns),
            "released": _curve([instance.released for instance in batch.instances], released),
        }
        if batch.applied:
            replies = [instance.steps["replied"] for instance in batch.instances]
            curves["replied"] = _curve(replies, since_ns)
        figures: Figures = {
            **curves,
            "allocation_time": curves["allocated"][-1][1],
            "release_time": curves["released"][-1][1],
            "instance_time": _mean(batch, "asked", "up"),
            "choose_time": _mean(batch, "asked", "chosen"),
            "copy_time": _mean(batch, "chosen", "copied"),
            "boot_time": _mean(batch, "copied", "up"),
            "instance_release_time": sum(
                instance.released - instance.release_asked for instance in batch.instances
            )
            / (1e9 * len(batch.instances)),
        }
        for name, step in _SINCE_ASKED.items():
            if all(step in instance.steps for instance in batch.instances):
                figures[name] = _mean(batch, "asked", step)
        return figures

    def facts(self, parameters: ProvisioningParameters, outputs: Outputs) -> dict[str, str]:
        """How close together the requests were, and how cold the image was."""
        batch = _batch(outputs)
        requests = [instance.steps["asked"] for instance in batch.instances]
        facts = {"requests within": f"{(max(requests) - min(requests)) / 1e6:.3f} ms"}
        if batch.image_held is not None:
            held, whole = batch.image_held
            facts["image still in memory"] = f"{held / whole:.1%}"
        return facts


def _batch(outputs: Outputs) -> Batch:
    return read(Batch, outputs["main"].stdout, "the batch", longest=LONGEST_RECORD)


def _check_cold(batch: Batch, *, cold: bool) -> None:
    """Dropped if and only if that was asked for, and really gone."""
    if cold != (batch.image_held is not None):
        raise InvalidTrialError(f"cold: asked for {cold}, and it was not so")
    if batch.image_held is None:
        return
    held, whole = batch.image_held
    if not 0 <= held <= whole or whole == 0:
        raise InvalidTrialError(f"{held} of {whole} bytes of the image cannot be in memory")
    if held > MOST_HELD * whole:
        raise InvalidTrialError(
            f"{held / whole:.0%} of the image stayed in this host's memory: it was not cold"
        )


def _check_steps(instance: InstanceSteps, applied: bool) -> None:
    """All steps that it must have gone through, each after the one before."""
    steps = instance.steps
    ways = [_UNTIL_UP, ("asked", "addressed", "up")]
    ways += [("copied", "booting", "hello")] if "booting" in steps else []
    ways += [_SERVED] if applied else []
    ways += [("addressed", "port_closed", "port_open")] if "port_closed" in steps else []
    for way in ways:
        lacking = [step for step in way if step not in steps]
        if lacking:
            raise InvalidTrialError(f"{instance.name} never was {', '.join(lacking)}")
        for before, after in pairwise(way):
            if steps[before] > steps[after]:
                raise InvalidTrialError(f"{instance.name} was {after} before it was {before}")
    if not max(steps.values()) <= instance.release_asked < instance.released:
        raise InvalidTrialError(f"{instance.name} was not released after all else")


def _first_request_ns(batch: Batch) -> int:
    return min(instance.steps["asked"] for instance in batch.instances)


def _mean(batch: Batch, first: Step, last: Step) -> float:
    """Seconds between two steps, over all instances."""
    total = sum(instance.steps[last] - instance.steps[first] for instance in batch.instances)
    return total / (1e9 * len(batch.instances))


def _curve(instants: Sequence[int], since: int) -> list[tuple[float, float]]:
    """(n, seconds until the n-th) for all n."""
    return [(float(n), (at - since) / 1e9) for n, at in enumerate(sorted(instants), 1)]
