"""`ullage image export`: what it refuses before anything is built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ullage.common import errors

PLAN = """
name: exported
baseline: native
image: host
environments: {native: {provider: native}}
workloads: [{name: command, argv: ["true"]}]
"""


def export(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ullage", "image", "export", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_plan_without_an_image(tmp_path: Path) -> None:
    plan, disk = tmp_path / "plan.yaml", tmp_path / "disk"
    plan.write_text(PLAN)
    done = export(str(plan), "--for", "openstack", "--to", str(disk))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error[{errors.EXPORT_NO_IMAGE.code}]: ")
    assert "hint: " in done.stderr and not disk.exists()


def test_a_cloud_that_nobody_knows(tmp_path: Path) -> None:
    done = export("--for", "bare-metal", "--to", str(tmp_path / "disk"))
    assert done.returncode == 2
    assert "cloudstack" in done.stderr


def test_images_that_no_one_disk_has(tmp_path: Path) -> None:
    plan, disk = tmp_path / "plan.yaml", tmp_path / "disk"
    clouds = "".join(
        f"  {name}: {{provider: openstack, flavor: small, boot_image: debian{image}}}\n"
        for name, image in (("ours", ""), ("theirs", ", image: {oci: shop.tar}"))
    )
    environments = f"environments:\n  native: {{provider: native}}\n{clouds}"
    given = PLAN.replace("image: host\n", "allow: [userland, pinning]\n")
    plan.write_text(given.replace("environments: {native: {provider: native}}\n", environments))
    done = export(str(plan), "--for", "openstack", "--to", str(disk))
    assert done.stderr.startswith(f"error[{errors.EXPORT_SEVERAL_IMAGES.code}]: "), done.stderr
