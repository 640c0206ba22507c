"""Functions of real programs in real instances: those of the image's files, and of no other."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.common.sums import opened
from ullage.environments.agent import client
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, Provider
from ullage.environments.containers.lxc import Lxc, LxcOptions
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.environments.native import Native, NativeOptions
from ullage.host import claims, clock, paths
from ullage.meters import Scene
from ullage.meters.perf.sampler import FILE, Sampler
from ullage.runs.symbols import SymbolRow, Symbols

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

WORK = "for ((i = 0; i < 400000; i++)); do :; done"
INSIDE = "/usr/bin/bash"
COPY = "/data/copied"


@asynccontextmanager
async def started(provider: Provider) -> AsyncIterator[Instance]:
    """One instance of the base image, without a network."""
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    state, data = paths.state_dir(tag) / "c-0", paths.data_dir(tag) / "c-0"
    try:
        for directory in (state, data):
            directory.mkdir()
        await provider.check()
        spec = kit.bare_spec(
            tag=tag, image=kit.image(), agent=client.binary(), state_dir=state, data_dir=data
        )
        instance = await provider.create(spec)
        try:
            yield instance
        finally:
            await instance.destroy()
    finally:
        for directory in (state.parent, data.parent):
            shutil.rmtree(directory)


async def burn(instance: Instance, program: str) -> None:
    done, _, stderr = await instance.agent.run(Command(argv=(program, "-c", WORK)))
    assert done.status == 0, stderr


def exported(file: Path) -> set[str]:
    """By another's word."""
    argv = ["nm", "--dynamic", "--defined-only", str(file)]
    symbols = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return {row.split()[-1].partition("@")[0] for row in symbols.splitlines()}


def own(table: Symbols, program: str) -> list[SymbolRow]:
    """What it did in its own file, which is called as it is."""
    return [row for row in table.rows if row.program == row.object == program]


@pytest.mark.parametrize(
    "provider",
    [Native(NativeOptions()), Oci(OciOptions()), Lxc(LxcOptions())],
    ids=["native", "oci", "lxc"],
)
def test_the_images_shell_is_named_and_a_copy_of_it_is_not(
    tmp_path: Path, provider: Provider
) -> None:
    """The copy has the very bytes and lies where the instance can write: its word is anybody's."""

    async def scenario() -> Symbols:
        programs: list[str] = []
        root = kit.image().root
        sampler = await Sampler.start(
            tmp_path / "perf", lambda code, _: programs.append(code), root
        )
        try:
            async with started(provider) as instance:
                await instance.agent.run(Command(argv=("cp", INSIDE, COPY)))
                scene = Scene(instance.spec.tag, (instance.name,))
                watch, start_ns = sampler.watch(scene), clock.ordered_ns()
                for program in (INSIDE, COPY):
                    await burn(instance, program)
                sampler.note(watch, tmp_path, start_ns, clock.ordered_ns())
        finally:
            await sampler.stop()
        assert programs == []
        return Symbols.model_validate_json(opened((tmp_path / FILE).read_bytes()))

    table = asyncio.run(scenario())
    named = [row for row in own(table, "bash") if row.symbol]
    assert named
    assert {row.symbol for row in named} <= exported(kit.image().root / INSIDE.lstrip("/"))
    copied = own(table, "copied")
    assert copied
    assert {row.symbol for row in copied} == {""}
    counted = sum(sum(cores.samples) for cores in table.by_core if cores.group == "programs")
    assert counted == sum(row.samples for row in table.rows if row.group == "programs")
