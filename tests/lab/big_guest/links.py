"""Run in the big guest: links that are late, and bundles of cables, as its kernel has them.

Prints a line of JSON for each bond: what a ping takes, what stands in sysfs, and what is left.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ullage.host import paths
from ullage.host.network.bridge import NamespaceEndpoint, Network
from ullage.host.network.cables import Cables, bundles
from ullage.host.network.links import NetworkLink


def ping(one: NamespaceEndpoint, other: NamespaceEndpoint, count: int = 5) -> dict[str, float]:
    argv = ["ip", "netns", "exec", one.netns_path.name]
    argv += ["ping", "-nq", f"-c{count}", "-i0.3", "-W3", other.address]
    text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    received = re.search(r"(\d+) received", text)
    least = re.search(r"rtt [^=]*= ([0-9.]+)/", text)
    return {
        "received": int(received[1]) if received else 0,
        "least_ms": float(least[1]) if least else float("nan"),
    }


def sent(cables: Cables) -> list[int]:
    """Packets that left by each cable at the switch."""
    files = [Path("/sys/class/net") / end / "statistics/tx_packets" for end in cables.ends[0]]
    return [int(file.read_text()) for file in files]


async def look(link: NetworkLink) -> dict[str, Any]:
    network = await Network.create(paths.new_tag(), link)
    try:
        one, two = [await network.namespace(name) for name in ("one", "two")]
        facts: dict[str, Any] = {"link": str(link), "whole": ping(one, two)}
        if link.bond == "none":
            return facts
        cables = Cables(link, network.tag, one.device)
        mode = Path("/sys/class/net") / cables.bonds[0] / "bonding"
        facts["mode"] = (mode / "mode").read_text().split()[0]
        facts["ports"] = (mode / "ad_num_ports").read_text().strip()
        before = sent(cables)
        ping(one, two, 20)
        facts["sent"] = [now - then for now, then in zip(sent(cables), before, strict=True)]
        subprocess.run(["ip", "link", "set", "dev", cables.ends[0][0], "down"], check=True)
        await asyncio.sleep(3)
        facts["broken"] = ping(one, two)
        facts["state"] = bundles(network.tag)["one"].__dict__
        return facts
    finally:
        await network.destroy()
        left = [path.name for path in Path("/sys/class/net").glob(f"{network.tag}-*")]
        assert left == [], left


for written in sys.argv[1:]:
    print(json.dumps(asyncio.run(look(NetworkLink.model_validate_json(written)))), flush=True)
