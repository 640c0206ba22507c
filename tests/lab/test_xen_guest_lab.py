"""ullage itself in dom0 of a real Xen, emulated: domains of each mode, and nothing left of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.big_guest.guest import BigGuest, started
from tests.lab.xen_guest.dom0 import XEN
from tests.lab.xen_guest.plan import MODES, PLAN
from ullage.analysis import doubts
from ullage.runs.reader import RunFolder

# Boot 3 to 5 minutes, the run as long; once more 5 where no disk is cached.
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.root, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def guest() -> Iterator[BigGuest]:
    with started(PLAN, kind=XEN) as running:
        yield running


def test_the_doctor_sees_xen(guest: BigGuest) -> None:
    answer = json.loads(guest.run("ullage", "doctor", "--json").output)
    states = {one["what"]: (one["state"], one["detail"]) for one in answer["findings"]}
    assert states["provider xen"] == ("ok", "xen-pvh")


def test_domains_of_each_mode_have_figures_and_leave_nothing(guest: BigGuest) -> None:
    guest.write("xen.yaml", PLAN)
    guest.run("ullage", "run", "xen.yaml")
    folder = RunFolder.open(guest.copy_out("runs", Path(tempfile.mkdtemp())) / _name(guest))
    assert [t.reason for t in folder.trials if t.status != "ok"] == []
    labels = {one.label for one in folder.resolved.environments}
    assert labels == {"native", *(f"xen-{mode}" for mode in MODES)}
    inside = [one.facts for one in folder.provisioned if one.environment.startswith("vm")]
    assert {facts["clocksource"] for facts in inside} == {"xen"}
    assert "host-emulated" in {doubt.code for doubt in doubts.of_run(folder, ())}
    _nothing_is_left(guest)


def test_a_killed_run_is_cleaned_up(guest: BigGuest) -> None:
    guest.write("kill.sh", KILL)
    assert "ullage-" in guest.run("sh", "kill.sh").output
    guest.run("ullage", "clean")
    _nothing_is_left(guest)


KILL = """\
ullage run xen.yaml > /dev/null 2>&1 &
run=$!
until xl list | grep '^ullage-'; do sleep 1; kill -0 $run; done
kill -KILL $run
"""


def _name(guest: BigGuest) -> str:
    return guest.run("sh", "-c", "cd runs && ls -d *-xen").output.strip()


def _nothing_is_left(guest: BigGuest) -> None:
    assert "0 leftovers found" in guest.run("ullage", "clean", "--dry-run").output
    assert len(guest.run("xl", "list").output.splitlines()) == 2, "the header, and dom0"
    assert guest.run("losetup", "-a").output == ""
    assert "ullage-" not in guest.run("ls", "/var/log/xen").output
