"""The OCI provider as a plain user, on the real thing."""

from __future__ import annotations

import json
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from tests.support import plainuser
from ullage.common import errors
from ullage.common.quantities import memory_bytes
from ullage.environments.agent.client import binary
from ullage.environments.containers.oci import _refuse_limits

pytestmark = pytest.mark.usefixtures("agent_binary")


@pytest.fixture
def user() -> Iterator[pwd.struct_passwd]:
    with plainuser.account() as plain_user:
        yield plain_user


ROOTLESS = """
import asyncio, json, os, sys
from pathlib import Path
from ullage.host import claims, paths
from ullage.environments.agent.client import Command
from ullage.environments.base import InstanceSpec
from ullage.common.quantities import memory_bytes
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.common.errors import UllageError
from ullage.host.image import Image

agent, root, memory = sys.argv[1], sys.argv[2], sys.argv[3]

async def main():
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    image = Image("sha256:0", Path(root), Path("/none"), {}, Path("/none"))
    state, data = paths.state_dir(tag) / "c-0", paths.data_dir(tag) / "c-0"
    state.mkdir(); data.mkdir()
    provider = Oci(OciOptions())
    await provider.check()
    bytes_ = int(memory) or memory_bytes()
    spec = InstanceSpec(tag, "c-0", (1,), None, bytes_, image, Path(agent), state, data, None)
    try:
        instance = await provider.create(spec)
    except UllageError as error:
        return {"error": error.code, "said": error.message, "left": state.exists()}
    script = "id -u; touch /here; echo data > /data/file && ls -n /data"
    _, out, err = await instance.agent.run(Command(argv=("sh", "-c", script)))
    owner = (data / "file").stat().st_uid
    await instance.freeze()
    await instance.thaw()
    await instance.destroy()
    return {
        "label": provider.label(), "out": out.decode(), "err": err.decode(), "owner": owner,
        "cpus": instance.agent.facts["cpus_allowed"], "left": state.exists() or data.exists(),
    }

print(json.dumps(asyncio.run(main())))
"""


def as_user(user: pwd.struct_passwd, memory: int) -> dict[str, object]:
    """Run ROOTLESS as that user, with an agent and a state directory that it may use."""
    agent = Path(user.pw_dir) / "agent"
    shutil.copy(binary(), agent)
    agent.chmod(0o755)
    root = str(kit.image().root)
    done = plainuser.python(user, "-c", ROOTLESS, str(agent), root, str(memory))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.root
def test_a_plain_user_gets_a_rootless_container(user: pwd.struct_passwd) -> None:
    answer = as_user(user, memory=0)
    assert "error" not in answer, answer
    assert answer["label"] == "container (crun, rootless)"
    assert str(answer["out"]).startswith("0\n")  # root inside …
    assert answer["owner"] == user.pw_uid  # … and the user outside
    assert "Read-only file system" in str(answer["err"])
    assert answer["cpus"] == [1]
    assert answer["left"] is False


@pytest.mark.root
def test_a_limit_that_a_plain_user_cannot_set_is_refused(user: pwd.struct_passwd) -> None:
    answer = as_user(user, memory=256 * kit.MIB)
    assert answer["error"] == errors.INSTANCE_NOT_LIMITED.code
    assert answer["left"] is False


def test_a_rootless_quota_is_refused() -> None:
    spec = kit.bare_spec(cpu_quota=0.5, memory_bytes=memory_bytes())
    with pytest.raises(errors.UllageError) as caught:
        _refuse_limits(spec)
    assert caught.value.kind is errors.INSTANCE_NOT_LIMITED
