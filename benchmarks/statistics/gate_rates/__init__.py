"""How often a gate is wrong: simulated pipelines, judged by the gate itself.

A pipeline is the baseline runs and the new run of one program, or one run with the old and the new
program in it. Its noise is a stretch of a recording, as it lies there: the runs one after the
other, without a row in common, so that the machine is as it was half an hour before at most. What
decides is what `ullage gate run --inconclusive extend --extend 10m` calls: `ullage.analysis.gate`
on run folders in memory, and the looks of `ullage.experiments.gate`.

    python -m benchmarks.statistics.gate_rates [--quick] [--json | --markdown] [--jobs 2]
"""
