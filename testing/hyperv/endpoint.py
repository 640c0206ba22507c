"""What stands for `powershell` on the host: `-EncodedCommand`, as ullage calls it over ssh."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from testing.hyperv.cmdlets import Host
from testing.hyperv.powershell import Interpreter


def main(folder: Path, arguments: list[str]) -> int:
    """One call; several run side by side, as on a real host."""
    switches = [word.lower() for word in arguments[:-1]]
    if switches != ["-noprofile", "-noninteractive", "-encodedcommand"]:
        sys.stderr.write(f"this stands for no {arguments}\n")
        return 1
    if (banner := folder / "banner").exists():
        sys.stdout.write(banner.read_text())
    if (instead := folder / "instead").exists():
        sys.stdout.write(instead.read_text())
        return 0
    command = base64.b64decode(arguments[-1]).decode("utf-16-le")
    lines = sys.stdin.read().splitlines()
    Interpreter(Host(folder)).run(command, input=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
