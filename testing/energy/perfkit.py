"""Programs that stand for `perf` where no processor tells its energy."""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = (
    f"""#!{sys.executable}
import json, os, subprocess, sys, time

assert sys.argv[1:5] == ["stat", "--all-cpus", "--per-socket", "--json"], sys.argv
assert os.environ["LC_ALL"] == "C"
given = dict(zip(sys.argv[2:], sys.argv[3:]))
log, every_s = int(given["--log-fd"]), int(given["--interval-print"]) / 1000
events = given["--event"].split(",")
"""
    + """
def say(*lines):
    os.write(log, b"".join(line.encode() + b"\\n" for line in lines))

def line(interval, value, event="power/energy-pkg/", socket=0, unit="Joules", running=100.0):
    # As Linux 6.1 prints it; newer ones have `counters` in place of `aggregate-number`.
    fields = {
        "interval": interval, "socket": f"S{socket}", "aggregate-number": 1,
        "counter-value": value, "unit": unit, "event": event, "event-runtime": 100032442,
        "pcnt-running": running, "metric-value": 0.0, "metric-unit": "",
    }
    return json.dumps(fields, separators=(", ", " : "))
"""
)

REAL = """
# The real perf, with what a processor without counters of energy has: CPU time. Each CPU uses
# 1000 msec a second, told as so many joules.
real = ["perf", *sys.argv[1:]]
real[real.index("--log-fd") + 1] = "1"
real[real.index("--event") + 1] = "cpu-clock"
words = "s|msec|Joules|; s|cpu-clock|power/energy-pkg/|"
perf = subprocess.Popen(real, stdout=subprocess.PIPE)
sys.exit(subprocess.call(["sed", "-u", words], stdin=perf.stdout, stdout=log) or perf.wait())
"""
"""Real intervals, real format, a known truth."""


def program(folder: Path, body: str) -> str:
    """Write one; `say(line(1.0, 2.5), …)` in its body is what perf would."""
    file = folder / "perf"
    file.write_text(_HEAD + body)
    file.chmod(0o755)
    return str(file)
