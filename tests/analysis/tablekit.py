"""Tables with a known truth, and their analysis."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ullage.analysis.comparison.model import Comparison
from ullage.analysis.tables import answer as tabular
from ullage.analysis.tables import table
from ullage.analysis.tables.request import Criteria, TableRequest

Columns = dict[str, Any]


def analysed(
    folder: Path, columns: Columns, better: Any = "lower", **changes: Any
) -> tabular.Answer:
    file = folder / "table.parquet"
    pq.write_table(pa.table(columns), file)
    criteria = {
        key: changes.pop(key)
        for key in ("margin", "confidence", "method", "quantile")
        if key in changes
    }
    return tabular.analyse(
        table.read(file, better=better),
        TableRequest(
            baseline=changes.pop("baseline", "native"),
            criteria=Criteria(**{"margin": 0.02, "confidence": 0.95, **criteria}),
            **changes,
        ),
    )


def only(answer: tabular.Answer) -> Comparison:
    (comparison,) = answer.analysis.comparisons
    return comparison


def codes(c: Comparison) -> set[str]:
    return {doubt.code for doubt in c.doubts}


def paired(native: Sequence[float], vm: Sequence[float], **more: Any) -> Columns:
    """Two environments, blocks numbered through."""
    blocks = [*range(len(native)), *range(len(vm))]
    names = ["native"] * len(native) + ["vm"] * len(vm)
    return {"environment": names, "block": blocks, "value": [*native, *vm], **more}


def noisy(n: int, ratio: float = 1.0, sd: float = 0.05, seed: int = 1) -> Columns:
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.3, n)
    native = np.exp(common + rng.normal(0, sd, n))
    vm = ratio * np.exp(common + rng.normal(0, sd, n))
    return paired(native.tolist(), vm.tolist())


def logs(columns: Columns) -> Any:
    value = np.log(columns["value"])
    half = value.size // 2
    return value[half:] - value[:half]


def nested(seed: int = 1, generations: int = 8, blocks: int = 5) -> tuple[Columns, Any]:
    rng = np.random.default_rng(seed)
    n = generations * blocks
    levels = np.repeat(rng.normal(0.1, 0.1, generations), blocks)
    x = levels + rng.normal(0, 0.01, n)
    columns = paired([1.0] * n, np.exp(x).tolist())
    group = np.repeat(np.arange(generations), blocks)
    columns["generation"] = [f"g{at}" for at in np.tile(group, 2)]
    return columns, x.reshape(generations, blocks).mean(axis=1)


def separate(n: int, m: int, ratio: float, seed: int = 4) -> tuple[Columns, Any, Any]:
    rng = np.random.default_rng(seed)
    native, vm = rng.lognormal(0, 0.1, m), ratio * rng.lognormal(0, 0.2, n)
    columns = {
        "environment": ["native"] * m + ["vm"] * n,
        "value": np.concatenate([native, vm]),
    }
    return columns, vm, native
