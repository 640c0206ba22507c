"""Elasticity: what grows and shrinks with its users, measured and simulated alike.

`plan` and `folder` say what goes in and what comes out; `run` makes real instances, `analysis` and
`report` read the folder, `simulator` answers the same for thousands of nodes. The decisions are
made in one place for all of them: `rust/elastic`.
"""
