"""Slow-downs of known size on the real machine: does the engine, with its analysis, find them?

The work of a trial is multiplied by exactly 1.00, 1.05, 1.10 or 1.25 (events, bytes or requests of
sysbench and iperf3), and the figure is the seconds that the tool itself needs for it, so the true
ratio is the factor. Trials run through `ullage.engine.engine`; intervals and verdicts come from
`ullage.analysis.overhead`. The same trials tell how often two equal environments are called
different, and, beside trials in the order of other tools (all of one, then all of the other), how
many trials each order needs to find 5 %.

Quotas, shapers, throttles and neighbours are measured beside it. Their true ratios are themselves
uncertain, so that part is about plausibility.
"""
