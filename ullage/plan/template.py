"""Writes a commented plan that runs as it is."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from ullage.common.errors import PLAN_EXISTS, UllageError
from ullage.plan.schema import Plan

TEMPLATE = files("ullage.plan") / "templates" / "plan.yaml"


def write(file: Path, *, force: bool = False) -> None:
    """Write the commented plan; raises PLAN_EXISTS rather than overwrite one."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(TEMPLATE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise UllageError(PLAN_EXISTS, file=file) from None


def schema() -> str:
    """JSON Schema of plans, for editors."""
    return json.dumps(Plan.model_json_schema(), indent=2)
