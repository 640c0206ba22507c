"""What a plan says of an instance in a cloud."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from ullage.common.quantities import Seconds
from ullage.environments.base import Options

Endpoint = Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]{1,255}$")]
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,255}$")]


class CloudOptions(Options):
    """Fields of every environment in a cloud."""

    later: ClassVar[frozenset[str]] = Options.later | {"userland"}

    cloud: Word | None = Field(
        None,
        description="what the cloud's own client calls it: a profile of ~/.aws/config, an entry of"
        " clouds.yaml; left out: the client's default. Credentials never stand in a plan",
    )
    region: Word | None = Field(None, description="left out: the client's default")
    flavor: Word = Field(
        description="size of the instance, in the cloud's words; it must have the plan's"
        " `resources`"
    )
    boot_image: Word = Field(
        description="image of the cloud that the instance boots; workloads run from the plan's own"
        " image, which is unpacked inside"
    )
    userland: Literal["image", "own"] = Field(
        "image",
        description="`image`: workloads run from the plan's image, the same bytes as everywhere;"
        " `own`: from what `boot_image` has, which the plan must allow (`allow: [userland]`)",
    )
    network: Word | None = Field(None, description="network or subnet; left out: the default")
    zone: Word | None = Field(None, description="availability zone")
    security_groups: tuple[Word, ...] = Field(
        (), max_length=16, description="they must let ssh in from here; left out: the default"
    )
    address: Literal["public", "private"] = Field(
        "private", description="by which of its addresses we reach it"
    )
    user: str = Field(
        "debian",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="whom ssh logs in as: root, or one whom sudo asks for no password",
    )
    host_key: Literal["inject", "console"] = Field(
        "inject",
        description="how we know that it is ours: `inject`, cloud-init gives it a key of ours;"
        " `console`, it prints its own there",
    )
    deadline_s: Seconds = Field(
        600.0, description="from the request until its agent answers, and for its removal"
    )
