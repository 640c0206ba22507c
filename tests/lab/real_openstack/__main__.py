"""`python -m tests.lab.real_openstack`: a shell beside the cloud, which ends with it."""

from __future__ import annotations

import os
import subprocess

from tests.lab.real_openstack.stack import started

with started() as stack:
    config = str(stack.clouds_yaml())
    print(f"OS_CLIENT_CONFIG_FILE={config}, clouds `lab` and `lab-admin`")
    subprocess.run(
        [os.environ.get("SHELL", "sh")],
        env={**os.environ, "OS_CLIENT_CONFIG_FILE": config, "OS_CLOUD": "lab"},
        check=False,
    )
