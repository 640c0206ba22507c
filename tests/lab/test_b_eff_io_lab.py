"""`b-eff-io` over NFS between two real guests; and where the kernel has none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from tests.support.enginekit import Quiet
from ullage.engine.engine import Engine
from ullage.plan import matrix, schema
from ullage.runs import writer
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: shared-folder
baseline: native
resources: {cpus: 1, memory: 1GiB}
environments:
  native: {provider: native}
  vm: {provider: qemu, accel: tcg, modules: [nfsv4, nfsd]}
blocks: {min: 1, max: 1}
workloads:
  - {name: b-eff-io, mpi: mpich, file_system: nfs, peer: second, memory: 128MiB}
"""


def test_two_guests_share_a_folder_by_nfs(tmp_path: Path) -> None:
    checked, document = schema.loads(PLAN)
    folder = writer.new_folder(tmp_path / "runs", checked.name)
    progress = Quiet()
    asyncio.run(Engine(checked, matrix.resolve(checked, document), folder, progress).run())
    assert not left_by(tmp_path / "runs")
    trials = {trial.environment: trial for trial in RunFolder.open(folder).trials}

    done = trials["vm"]
    assert done.status == "ok", done.reason
    assert done.facts["rules"] == "not kept: scheduled for 1 s of at least 1800 s"
    curves = {name for name, figure in done.metrics.items() if isinstance(figure, list)}
    assert curves == {"write_by_chunk", "rewrite_by_chunk", "read_by_chunk"}
    figures = {"b_eff_io", "b_eff_io_release_1", "write", "rewrite", "read"}
    assert set(done.metrics) - curves == figures
    assert {role.role for role in done.roles} >= {"main", "server"}
    assert not [warning for warning in progress.warnings if "cleanup" in warning]

    if " nfsd" not in Path("/proc/filesystems").read_text(encoding="ascii"):
        refused = trials["native"]
        assert refused.status == "failed"
        assert refused.reason is not None
        assert refused.reason.code == "prepare-failed"
        assert "this kernel has no NFS" in refused.reason.message
