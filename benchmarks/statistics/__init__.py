"""The truth machine: noise with a known truth, through our design and through others'.

    python -m benchmarks.statistics [--quick | --full] [--json | --markdown] [--jobs 2]
    python -m benchmarks.statistics --record FILE --minutes M [--measures cpu,memory]

A trial's figure is the truth of its environment times the noise of its moment. The schedule decides
at which moments the trials of a campaign happen, so that what an order does to the answer is seen.
"""
