"""Runs that lie elsewhere: an archive by https or in an object store, a whole store of them."""
