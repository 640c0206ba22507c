"""`ullage run` whose nodes are a farm's (`benchmarks/nodes/farm.py`): the transport is another.

Arguments: the farm's socket, the plan, the folder of runs. It prints its CPU seconds and its peak
memory in bytes, without those of its children.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.cli import main as cli
from ullage.environments.agent.frames import MAX_BODY
from ullage.environments.agent.transport import Transport


class Connection:
    """A connection to the farm, in the place of ssh."""

    pid = 0
    tail = b""
    status = 0

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def end(self) -> None:
        """The other side hears it."""
        self.writer.close()

    async def ending(self) -> int:
        """There is no program."""
        return self.status


def main() -> None:
    """Run the plan."""
    farm, plan, runs = sys.argv[1:]

    async def start(
        argv: Sequence[str], stderr: Path | None, env: Mapping[str, str] | None, name: str
    ) -> Any:
        reader, writer = await asyncio.open_unix_connection(farm, limit=MAX_BODY)
        writer.write(b"attach\n" if " attach " in argv[-1] else b"serve\n")
        return Connection(reader, writer)

    Transport.start = start  # type: ignore[method-assign]
    sys.argv[1:] = ["run", plan, "--runs", runs]
    try:
        cli.main()
    finally:
        own = resource.getrusage(resource.RUSAGE_SELF)
        used = {"cpu_s": own.ru_utime + own.ru_stime, "peak": own.ru_maxrss * 1024}
        print(json.dumps(used), file=sys.stderr)


if __name__ == "__main__":
    main()
