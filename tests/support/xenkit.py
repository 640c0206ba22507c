"""An `xl` for tests: no host here has Xen, so domains are lines in a file.

What it prints is what Xen 4.17.7 printed in the lab's dom0 (`tests/lab/xen_guest`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from ullage.environments.xen import running, xl

_PROGRAM: Final = """\
#!/usr/bin/python3
import json, sys
from pathlib import Path

place = Path({place!r})
state = json.loads(place.read_text())
word, *rest = sys.argv[1:]
state["calls"].append([word, *rest])
place.write_text(json.dumps(state))
if word in state["fails"]:
    sys.exit(f"libxl: error: {{state['fails'][word]}}")
if word == "info":
    for name, value in state["info"].items():
        print(f"{{name:<23}}: {{value}}")
elif word == "create":
    lines = Path(rest[-1]).read_text().splitlines()
    domain = {{k: json.loads(v) for k, v in (line.split(" = ", 1) for line in lines)}}
    state["domains"][str(len(state["domains"]) + 1)] = domain
elif word == "destroy":
    state["domains"].pop(rest[0])
elif word == "list":
    print("Name                                        ID   Mem VCPUs\\tState\\tTime(s)")
    for number, domain in state["domains"].items():
        print(f"{{domain['name']:<40}}     {{number}}   512     1\\tr-----\\t     298.4")
elif word == "vm-list":
    print("UUID                                  ID    name")
    for number, domain in state["domains"].items():
        print(f"{{domain['uuid']}}  {{number}}    {{domain['name']:<30}}")
elif word == "vcpu-list":
    print("Name                                ID  VCPU   CPU State   Time(s) Affinity (", end="")
    print("Hard / Soft)")
    for vcpu, cpus in enumerate(state["affinity"]):
        print(f"{{'a domain':<32}}     0     {{vcpu}}    {{vcpu}}   r--     154.8  {{cpus}} / all")
elif word == "sched-credit2":
    print("Name                                ID Weight  Cap")
    print(f"{{rest[-1]:<32}}     1    256    {{state['cap']}}")
place.write_text(json.dumps(state))
"""


@dataclass
class FakeXl:
    """What it says, and what it was asked."""

    place: Path

    def say(self, **changes: Any) -> None:
        """Have it say so from now on."""
        self.place.write_text(json.dumps({**self.state, **changes}), encoding="utf-8")

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.place.read_text(encoding="utf-8"))
        return state

    @property
    def calls(self) -> list[str]:
        """The first word of each call."""
        return [call[0] for call in self.state["calls"]]


def fake_xl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXl:
    """On the path, with a dom0 around it whose two vCPUs are pinned."""
    place, program = folder / "xen.json", folder / "xl"
    info = {"virt_caps": "pv hvm hap gnttab-v1 gnttab-v2", "xen_version": "4.17.7"}
    nothing: dict[str, Any] = {"calls": [], "fails": {}, "domains": {}, "cap": 0}
    state = {**nothing, "info": info, "affinity": ["0", "1"]}
    place.write_text(json.dumps(state), encoding="utf-8")
    program.write_text(_PROGRAM.format(place=str(place)), encoding="utf-8")
    program.chmod(0o755)
    for name, text in (("type", "xen\n"), ("capabilities", "control_d\n")):
        (folder / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(xl, "_TYPE", folder / "type")
    monkeypatch.setattr(xl, "_CAPABILITIES", folder / "capabilities")
    monkeypatch.setattr(running, "_LOGS", folder)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    return FakeXl(place)
