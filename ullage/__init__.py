"""ullage measures the part of a machine that you pay for and don't get.

As a library: `run` a plan, `open_run`, `compare` a table, `compare_runs`. They are loaded when they
are first asked for; everything else under `ullage` may change with any version. `__init__.pyi` has
their types: a room's imports, which contracts hold, are not to begin here.
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["Comparisons", "Run", "__version__", "compare", "compare_runs", "open_run", "run"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("ullage.experiments.library"), name)
    raise AttributeError(f"module 'ullage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
