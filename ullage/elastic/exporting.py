"""`ullage elastic export`: figures of a run as a table, or a picture of its page for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ullage.elastic import exporttable
from ullage.elastic.show import Found, find
from ullage.export import PICTURES
from ullage.resultscli import give, refuse_picture

FIELD: Final = "field"
"""The picture that is meant without a name."""


def command(
    run: Path | None, form: str, picture: str | None, *, runs: Path, out: Path | None
) -> None:
    """Write it to `out`, or to standard output.

    RUN_NOT_FOUND, RUN_BAD_FORMAT, EXPORT_NO_PICTURE, EXPORT_UNKNOWN_FORMAT, EXPORT_UNKNOWN_PICTURE.
    """
    refuse_picture(picture, form)
    found = find(run, runs)
    if form in PICTURES:
        data = _picture(found, picture or FIELD, form)
    else:
        data = exporttable.sheet(found).written(form, PICTURES)
    give(data, out)


def _picture(found: Found, name: str, form: str) -> bytes:
    # What draws takes a second to import, and a table needs none of it.
    from ullage.elastic import drawn, reporting  # noqa: PLC0415
    from ullage.report.charts import picked  # noqa: PLC0415

    made = dict(drawn.pictures(reporting.report_of(found)))
    return picked(made, found.run.path, name, form)
