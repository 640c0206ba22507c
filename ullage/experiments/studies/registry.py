"""What the list of studies refuses at start."""

from __future__ import annotations

from typing import Final

from ullage.common.registry import Registry
from ullage.experiments.studies.base import Study


def _fault(study: type[Study]) -> str | None:
    for attribute in ("title", "question", "source"):
        value = getattr(study, attribute)
        if not isinstance(value, str) or not value.strip():
            return f"{attribute} is not text"
    if not study.question.endswith("?"):
        return "question does not end with a question mark"
    if not isinstance(study.needs, tuple) or not all(isinstance(need, str) for need in study.needs):
        return "needs is not a tuple of text"
    return None


REGISTRY: Final = Registry("study", Study, ("title", "question", "source", "needs"), _fault)
