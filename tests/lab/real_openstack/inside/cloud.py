"""What is done inside: `cloud.py services`, `wait`, `furnish`, `own_disk`, `credentials` …"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

import openstack

IP: Final = "10.99.0.2"
SERVICES: Final = {
    "glance": ("image", f"http://{IP}:9292"),
    "placement": ("placement", f"http://{IP}:8778"),
    "nova": ("compute", f"http://{IP}:8774/v2.1"),
    "neutron": ("network", f"http://{IP}:9696"),
    "ec2": ("ec2", f"http://{IP}:8788/"),
}
COMMAND: Final = (
    "root=/dev/vda rw console=ttyS0 init=/sbin/lab-init mitigations=off no_timer_check quiet"
)
"""Without a timer check: an emulated guest on a busy host fails it, and panics."""
DEVICES: Final = {"hw_cdrom_bus": "scsi", "hw_scsi_model": "virtio-scsi", "hw_rng_model": "virtio"}
PASSWORD: Final = "lab"


def _connected(user: str, project: str) -> Any:
    return openstack.connect(
        auth_url=f"http://{IP}:5000/v3",
        username=user,
        password=PASSWORD,
        project_name=project,
        user_domain_name="Default",
        project_domain_name="Default",
        region_name="RegionOne",
    )


CLOUD: Final = _connected("admin", "admin")


def services() -> None:
    """Users, services and where they are."""
    identity = CLOUD.identity
    domain = next(domain for domain in identity.domains() if domain.name == "Default")
    project = identity.create_project(name="service", domain_id=domain.id)
    roles = {role.name: role for role in identity.roles()}
    if "service" not in roles:
        roles["service"] = identity.create_role(name="service")
    for name, (kind, url) in SERVICES.items():
        user = identity.create_user(name=name, password=PASSWORD, domain_id=domain.id)
        for role in ("admin", "service"):
            identity.assign_project_role_to_user(project, user, roles[role])
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal", "admin"):
            identity.create_endpoint(
                service_id=service.id, interface=interface, url=url, region_id="RegionOne"
            )


def wait() -> None:
    """Until the compute service and the network's agent are up.

    The list of networks comes first: neutron 21 answers 500 to a look at a port in a worker that
    has answered nothing yet.
    """
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            list(CLOUD.network.networks())
            agents = [agent.is_alive for agent in CLOUD.network.agents()]
            states = [one.state for one in CLOUD.compute.services() if one.binary == "nova-compute"]
            if agents == [True] and states == ["up"]:
                return
        except Exception as error:
            print(str(error)[:200], flush=True)
        time.sleep(1)
    sys.exit("the cloud is not up")


def furnish() -> None:
    """What a user finds there: flavors, an image, a network; and a user with few rights."""
    for flavor, memory, disk in (("lab", 512, 2), ("lab1g", 1024, 8)):
        if not CLOUD.compute.find_flavor(flavor):
            CLOUD.compute.create_flavor(name=flavor, ram=memory, vcpus=1, disk=disk)
    kernel = _image("lab-kernel", "vmlinuz", "aki", "aki")
    initrd = _image("lab-initrd", "initrd", "ari", "ari")
    boot = {"kernel_id": kernel, "ramdisk_id": initrd, "os_command_line": COMMAND}
    _image("debian12", "guest.qcow2", "qcow2", "bare", **boot, **DEVICES)
    _network()
    _user()


def _image(name: str, file: str, disk: str, container: str, **more: str) -> str:
    there = CLOUD.image.find_image(name)
    if not there:
        there = CLOUD.image.create_image(
            name=name, disk_format=disk, container_format=container, visibility="public", **more
        )
        with Path("/images", file).open("rb") as data:
            kind = {"Content-Type": "application/octet-stream"}
            CLOUD.image.put(f"/images/{there.id}/file", data=data, headers=kind)
    return str(there.id)


def own_disk() -> None:
    """A disk that a plan's image was exported to, in place of an earlier one."""
    if earlier := CLOUD.image.find_image("ullage"):
        CLOUD.image.delete_image(earlier)
    _image("ullage", "ullage.qcow2", "qcow2", "bare")


def _network() -> None:
    network = CLOUD.network.find_network("prov") or CLOUD.network.create_network(
        name="prov",
        provider_network_type="flat",
        provider_physical_network="physnet1",
        shared=True,
        is_port_security_enabled=False,
    )
    if not CLOUD.network.find_subnet("prov4"):
        CLOUD.network.create_subnet(
            name="prov4",
            network_id=network.id,
            ip_version=4,
            cidr="10.10.0.0/24",
            gateway_ip="10.10.0.1",
            is_dhcp_enabled=False,
            allocation_pools=[{"start": "10.10.0.10", "end": "10.10.0.250"}],
        )


def _user() -> None:
    identity = CLOUD.identity
    if identity.find_project("guests"):
        return
    domain = next(domain for domain in identity.domains() if domain.name == "Default")
    project = identity.create_project(name="guests", domain_id=domain.id)
    user = identity.create_user(
        name="guest", password=PASSWORD, domain_id=domain.id, default_project_id=project.id
    )
    member = next(role for role in identity.roles() if role.name == "member")
    identity.assign_project_role_to_user(project, user, member)


def credentials() -> None:
    """Print the two words by which the administrator signs calls of EC2's API.

    ec2-api takes no network that another project shares.
    """
    path = f"/users/{CLOUD.current_user_id}/credentials/OS-EC2"
    answer = CLOUD.identity.post(path, json={"tenant_id": CLOUD.current_project_id})
    pair = answer.json()["credential"]
    print(pair["access"], pair["secret"])


def one_instance() -> None:
    """The guests' quota, until it is as it was."""
    CLOUD.set_compute_quotas("guests", instances=1)


def ten_instances() -> None:
    """What Nova gives everybody."""
    CLOUD.set_compute_quotas("guests", instances=10)


if __name__ == "__main__":
    commands = (services, wait, furnish, own_disk, credentials, one_instance, ten_instances)
    {command.__name__: command for command in commands}[sys.argv[1]]()
