"""The `openstack` provider: instances by Nova, over openstacksdk."""

from __future__ import annotations

import threading
from typing import ClassVar, Literal

from pydantic import Field

from ullage.environments.base import Options
from ullage.environments.clouds.driver import Driver
from ullage.environments.clouds.nova import NovaDriver
from ullage.environments.clouds.options import CloudOptions, Word
from ullage.environments.clouds.provider import CloudProvider


class OpenStackOptions(CloudOptions):
    """Fields of an `openstack` environment in the plan."""

    idle: Literal["paused", "runs"] = Field(
        "paused", description="while it is not its turn: Nova pauses it, or it runs on"
    )
    server_group: Word | None = Field(
        None, description="a group that is there already: its policy spreads or packs instances"
    )
    config_drive: bool | None = Field(
        None,
        strict=True,
        description="is the instance told of itself by a disk of its own, or by the metadata"
        " service alone; left out: as the cloud does it",
    )


class OpenStack(CloudProvider):
    """An instance of an OpenStack cloud.

    openstacksdk makes it, with the credentials that it finds by itself (`clouds.yaml`, `OS_…` in
    the environment); none of them stands in the plan or the run folder. `cloud` is an entry of
    `clouds.yaml`. The plan's image is sent there by ssh and unpacked on the instance's own disk,
    and workloads run in it: the same bytes as everywhere, on the kernel of `boot_image`. While it
    is not its turn Nova pauses it. Flavor, image, network and group are names or ids. Who has an
    administrator's rights finds in the record which host it stood on and by which hypervisor.
    `ullage cloud list openstack` shows what runs have there.
    Needs `pip install 'ullage[clouds]'`. Addresses are those of its network: a floating one is not
    asked for.
    """

    name: ClassVar[str] = "openstack"
    options_model: ClassVar[type[Options]] = OpenStackOptions
    last_seen: ClassVar[str] = "2026-11-28: OpenStack Zed of Debian 12, one compute node, emulated"

    def __init__(self, options: Options) -> None:
        assert isinstance(options, OpenStackOptions)
        super().__init__(options)
        self._options = options
        self._driver: NovaDriver | None = None
        self._making = threading.Lock()

    def driver(self) -> Driver:
        """One for all instances: who logs in anew for each waits for it each time."""
        options = self._options
        with self._making:
            if self._driver is None:
                self._driver = NovaDriver(
                    options.cloud, options.region, options.server_group, options.config_drive
                )
            return self._driver

    @property
    def pauses(self) -> bool:
        return self._options.idle == "paused"

    def treatments(self) -> dict[str, str]:
        drive = {None: None, True: "yes", False: "no"}[self._options.config_drive]
        more = {"server group": self._options.server_group, "config drive": drive}
        return super().treatments() | {name: word for name, word in more.items() if word}
