"""What tests of `connections` share: recorded outputs, and the check of any."""

from functools import cache
from pathlib import Path
from typing import Any

from ullage.runs.events import Usage
from ullage.workloads.base import Output
from ullage.workloads.network.connections import Connections, ConnectionsParameters

CONNECTIONS = Connections()
USAGE = Usage(user_s=0.5, system_s=1.5, max_rss_bytes=1)
DATA = Path(__file__).parent / "data" / "connections"
RECORDED = {
    "closed": ConnectionsParameters(threads=4, time_s=0.2),
    "open": ConnectionsParameters(threads=2, time_s=0.2, rate=500.0, echo=True, close="client"),
    "counted": ConnectionsParameters(connections=50, close="reset", echo=True),
}


def outputs_of(client: str, server: str) -> dict[str, Output]:
    return {
        "client": Output(0, None, client, "", 1.0, USAGE),
        "server": Output(0, None, server, "listening on 0.0.0.0:7000\n", 1.0, USAGE),
    }


@cache
def recorded(name: str) -> tuple[ConnectionsParameters, dict[str, Output]]:
    client, server = ((DATA / f"{name}-{role}.json").read_text() for role in ("client", "server"))
    return RECORDED[name], outputs_of(client, server)


def checked(parameters: ConnectionsParameters, outputs: dict[str, Output]) -> dict[str, Any]:
    """Check, parse, and every figure is one."""
    CONNECTIONS.check(parameters, outputs)
    figures = CONNECTIONS.parse(parameters, outputs)
    assert set(figures) <= {metric.name for metric in CONNECTIONS.metrics}
    for name, value in figures.items():
        points = [value] if isinstance(value, float) else [x for _, x in value]
        assert points
        assert all(0 <= x < 1e18 for x in points)
        assert all(x > 0 for x in points) or name == "errors"
    return figures
