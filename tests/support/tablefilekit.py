"""Tables of others, as text, and what is said of those that are refused."""

from pathlib import Path
from typing import Any

import pytest

from ullage.analysis.tables.table import read
from ullage.common.errors import ErrorKind, UllageError


def csv(folder: Path, text: str, name: str = "table.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refused(kind: ErrorKind, file: Path, *phrases: str, **options: Any) -> UllageError:
    with pytest.raises(UllageError) as caught:
        read(file, **options)
    assert caught.value.kind is kind
    message = f"{caught.value.message}\n{caught.value.hint}"
    for words in (str(file), *phrases):
        assert words in message, message
    return caught.value
