"""ullage's own performance, beside its peers, in one run.

Each benchmark is `python -m benchmarks.NAME [--quick] [--json]` and prints one row per figure.
Absolute times mean little on a shared machine: what counts is the ratio to a peer measured in turn
with us.
"""
