"""Elasticity: what grows and shrinks with its users, measured and simulated alike.

`plan` and `folder` say what goes in and what comes out; `run` makes real instances, `show` reads
the folder, `simulate` and `sweep` answer the same for thousands of nodes. The decisions are made in
one place for all of them: `rust/elastic`.
"""
