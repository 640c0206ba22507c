"""ullage's own performance, beside its peers, in one run.

`python -m benchmarks` runs all, `python -m benchmarks.SUBJECT` those of a subject, and
`python -m benchmarks.SUBJECT.NAME` one; each takes `--quick` and `--json`, and prints one row per
figure. Absolute times mean little on a shared machine: what counts is the ratio to a peer measured
in turn with us.
"""
