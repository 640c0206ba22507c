"""The plan that runs in dom0."""

from typing import Final

MODES: Final = ("pv", "pvh", "hvm")
PLAN: Final = f"""\
name: xen
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
environments:
  native: {{provider: native}}
  vm: {{provider: xen, vary: {{mode: [{", ".join(MODES)}]}}}}
workloads:
  - {{name: sysbench-cpu, time_s: 1}}
  - {{name: sysbench-memory, time_s: 1}}
  - {{name: iperf3, time_s: 1}}
blocks: {{min: 1, max: 1}}
seed: 1
"""
