"""Folders that an older ullage left read the same today: what is printed, byte for byte, but for
the last digits of a figure that was computed, which another make of CPU rounds otherwise, for
fields that were added, and for what `CHANGED` and `ADDED` list with the reason.

`old_folders/KIND/` holds runs of a kind as they were left, without what is derived from them;
`old_folders/readings/` holds what the ullage that made them, 0.1.0, said of them. Neither may be
made anew to please a change: a difference is an old run that reads otherwise.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from ullage.cli.main import main

OLD: Final = Path(__file__).parent / "old_folders"
READINGS: Final = OLD / "readings"
PAGE: Final = "page.html"
"""Where a command of the table writes its page; then the page's data is what it said."""
SETTING: Final = {"TZ": "UTC", "OPENBLAS_NUM_THREADS": "1"}
WEIGHTS: Final = "cpu=0.2,memory=0.2,disk=0.6"
SAMPLES: Final = (
    "select environment, workload, metric, status, unit, count(*) as n, min(value) as least,"
    " median(value) as middle, max(end_epoch_ns) as last, max(bound_ns) as bound"
    " from samples group by all order by all"
)
METERS: Final = (
    "select environment, workload, meter, name, unit, count(*) as n, median(value) as middle"
    " from meters where name in ('window', 'cpu_user', 'page_faults') group by all order by all"
)
EVENTS: Final = (
    "select kind, count(*) as n, max(epoch_ns) as last, max(bound_ns) as bound"
    " from events group by all order by all"
)

TABLE: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("run", ("list", "--runs", "run", "--json"), "run-list.json"),
    ("run", ("show", "run/*", "--json"), "run-show.json"),
    ("run", ("show", "run/*", "--details"), "run-show.txt"),
    ("run", ("export", "run/*", "--format", "csv"), "run-export.csv"),
    ("run", ("export", "run/*", "--format", "json"), "run-export.json"),
    ("run", ("export", "run/*", "--format", "latex"), "run-export.tex"),
    ("run", ("export", "run/*", "--energy", "--format", "csv"), "run-export-energy.csv"),
    ("run", ("export", "run/*", "--energy", "--format", "latex"), "run-export-energy.tex"),
    ("run", ("report", "run/*", "--out", PAGE), "run-report.txt"),
    ("run", ("weigh", "run/*", "--weights", WEIGHTS, "--json"), "run-weigh.json"),
    ("run", ("weigh", "run/*", "--weights", WEIGHTS), "run-weigh.txt"),
    ("run", ("query", "--runs", "run", "--json", SAMPLES), "run-samples.json"),
    ("run", ("query", "--runs", "run", "--json", METERS), "run-meters.json"),
    ("run", ("query", "--runs", "run", "--json", EVENTS), "run-events.json"),
    ("run", ("study", "show", "cmu-overhead", "run/*", "--json"), "run-study.json"),
    ("duet", ("show", "duet/*", "--json"), "duet-show.json"),
    ("duet", ("show", "duet/*", "--details"), "duet-show.txt"),
    ("duet", ("export", "duet/*", "--format", "csv"), "duet-export.csv"),
    ("duet", ("report", "duet/*", "--out", PAGE), "duet-report.txt"),
    ("curve", ("show", "curve/*", "--json"), "curve-show.json"),
    ("curve", ("show", "curve/*", "--details"), "curve-show.txt"),
    ("curve", ("export", "curve/*", "--format", "csv"), "curve-export.csv"),
    ("curve", ("report", "curve/*", "--out", PAGE), "curve-report.txt"),
    ("curve", ("study", "show", "network-pipeline", "curve/*", "--json"), "curve-study.json"),
    ("elastic", ("list", "--runs", "elastic", "--json"), "elastic-list.json"),
    ("elastic", ("elastic", "show", "elastic/*", "--json"), "elastic-show.json"),
    ("elastic", ("elastic", "show", "elastic/*"), "elastic-show.txt"),
    ("elastic", ("elastic", "export", "elastic/*", "--format", "csv"), "elastic-export.csv"),
    ("elastic", ("elastic", "export", "elastic/*", "--format", "json"), "elastic-export.json"),
    ("elastic", ("elastic", "export", "elastic/*", "--format", "latex"), "elastic-export.tex"),
    ("elastic", ("elastic", "report", "elastic/*", "--out", PAGE), "elastic-report.txt"),
    ("clock", ("study", "show", "elastic-clock", "clock/*", "--json"), "clock-study.json"),
    ("study", ("show", "study/*", "--json"), "study-run-show.json"),
    (
        "study",
        ("study", "show", "elastic-clock", "clock/*", "study/*", "elastic/*", "--json"),
        "study-show.json",
    ),
    (
        "study",
        ("study", "show", "elastic-clock", "clock/*", "study/*", "elastic/*"),
        "study-show.txt",
    ),
    (
        "study",
        ("study", "show", "elastic-clock", "clock/*", "study/*", "elastic/*", "--out", PAGE),
        "study-page.txt",
    ),
    ("profile", ("profile", "--load", "profile/*/profile.json", "--json"), "profile-show.json"),
    ("profile", ("profile", "--load", "profile/*/profile.json"), "profile-show.txt"),
    (
        "profile",
        ("profile", "--load", "profile/*/profile.json", "--run", "run/*", "--json"),
        "profile-predicted.json",
    ),
    ("profile", ("show", "profile/*", "--json"), "profile-run-show.json"),
    ("profile", ("report", "profile/*", "--out", PAGE), "profile-report.txt"),
)
"""Kind, command, and the file in `readings/` with what it said. `KIND/*` is that kind's folder."""


class _Data(HTMLParser):
    """All that a page says: its words, what is said of its pictures, the figures of its charts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._kept = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "style"}:
            self._kept = given.get("type") == "application/json"
        self.lines += [f"{key}: {given[key]}" for key in ("aria-label", "title") if given.get(key)]

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._kept = True

    def handle_data(self, data: str) -> None:
        if self._kept and data.strip():
            self.lines.append(" ".join(data.split()))


def _data(page: str) -> str:
    """Of a page, without the version that it names at its end."""
    parser = _Data()
    parser.feed(page)
    text = "\n".join(parser.lines) + "\n"
    return re.sub(r"(?<=Made by ullage )\d+\.\d+\.\d+", "VERSION", text)


_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def first_difference(text: str, reading: str) -> str | None:
    """None when they are the same; figures with a point may differ by a billionth."""
    words, words_read = _NUMBER.split(text), _NUMBER.split(reading)
    numbers, numbers_read = _NUMBER.findall(text), _NUMBER.findall(reading)
    for word, word_read in zip(words, words_read, strict=False):
        if word != word_read:
            return f"{word!r} was {word_read!r}"
    for number, number_read in zip(numbers, numbers_read, strict=False):
        computed = "." in number + number_read and float(number) == pytest.approx(
            float(number_read), rel=1e-9, abs=1e-12
        )
        if number != number_read and not computed:
            return f"{number} was {number_read}"
    return None if len(words) == len(words_read) else "one is longer"


CHANGED: Final[tuple[tuple[str, str], ...]] = (
    # Rules 2: a claim must hold against both copies of the baseline, the floor is only shown.
    (
        "nothing below that is called a difference",
        "what is called a difference differs from both of its copies",
    ),
    (
        "the difference is proven and above the noise floor",
        "the difference is proven against either copy of the baseline",
    ),
    # Such advice, followed, brought a verdict in 59 to 94 % of runs.
    (r"(: about [\d,]+ more blocks)", r"\1 may be enough"),
    # Whether an A/A differs is a test over all of the run: intervals of two blocks prove nothing.
    (
        r"(?m)^.*Two equal environments differ here.*\n"
        r"(Look at the A/A comparison; .*\n\(again-differs\)\n)?",
        "",
    ),
    (r"(?m)^again-differs: .*\nLook at the A/A comparison; .*\n", ""),
    (r" again-differs\b", ""),
    (", and the equal environments themselves differ", ""),
    # Of the larger one of the p-values against both copies.
    (r"; corrected for the family .*", ""),
)
"""What old readings say, and what is said now."""
ADDED: Final = (
    # The bounds of what was lost stand beside the interval.
    r"(?m)^ *with what was lost(: .*|\n.*)\n",
    r" Had they been the best or the worst of all, it would be \S+ to [\d.]*\d\.",
    # `weigh` has the floor that `show` has.
    r"(?m)^.*against itself (may come to as much, weighed alike|comes to is not known).*\n",
    r"(?m)^ *against the second copy(: .*|\n.*)\n",
    r"; corrected for the family .*",
    # What fewer than twelve blocks cannot show.
    r"(?m)^From \d+ blocks nobody can tell .*\n",
)
"""What is said now and was not before."""


OF_STEPS: Final = ("type_b", "expanded")
"""Columns that the step of a constant widens."""
OTHER: Final = frozenset(
    {
        "floor_biased",
        "p_difference_adjusted",
        "p_equivalence_adjusted",
        "blocks_to_settle",
        "makings_to_settle",
    }
)
"""Fields of a comparison that say something else: whether its A/A differs, tested over all of the
run; corrected p-values, which are the larger ones of both copies; blocks that both copies need."""
NO_FLOOR: Final = "No A/A comparison has an interval here"
"""Said too where both copies always print the same: that was a floor of exactly 1."""


def difference(file: str, text: str, reading: str) -> str | None:
    """Between what is said now and a reading, but for what is known to have changed."""
    then: Any = None
    if file.endswith(".json"):
        now, then = json.loads(text), json.loads(reading)
    elif file.endswith(".csv"):
        now, then = (list(csv.DictReader(io.StringIO(rows))) for rows in (text, reading))
    if then is not None:
        then = _known(then)
        text, reading = (json.dumps(x, indent=1) for x in (_without_new(_known(now), then), then))
    for before, since in CHANGED:
        reading = re.sub(before, since, reading)
    for added in ADDED:
        text = re.sub(added, "", text)
    return first_difference(_laid_out(text), _laid_out(reading))


def _laid_out(text: str) -> str:
    """Without the padding of tables, and without numbers of blocks that are advised."""
    return re.sub(r"about [\d,]+ more", "about some more", re.sub(r" {2,}| +$", "  ", text))


def _without_new(now: Any, then: Any) -> Any:
    """Without the fields that the reading has not: they may come, and none may go."""
    if isinstance(now, dict) and isinstance(then, dict):
        if "components" in then and _steps(now) and _steps(now) >= _steps(then):
            return then  # half a step is taken on the log scale, and a constant has one too
        if "type_b" in then and str(then["type_b"]) == "0.0":
            now = {**now, **{key: then[key] for key in OF_STEPS if key in then}}
        return {key: _without_new(now[key], then[key]) for key in then if key in now}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [_without_new(*pair) for pair in zip(now, then, strict=True)]
    return now


def _steps(budget: Any) -> int:
    return [component["source"] for component in budget["components"]].count("resolution")


def _known(reading: Any) -> Any:
    """Without fields, and without doubts, that say something else now."""
    if isinstance(reading, dict):
        known = {key: _known(value) for key, value in reading.items() if key not in OTHER}
        if known.get("floor") == 1:
            known["floor"] = None
        if known.get("why") == "correction":
            known["why"] = "interval-too-wide"
        return known
    if isinstance(reading, list):
        return [_known(item) for item in reading if not _withdrawn(item)]
    return reading


def _withdrawn(item: Any) -> bool:
    if isinstance(item, dict) and item.get("code") in ("coarse", "systematic"):
        return True  # a constant is coarse now
    message = item.get("message", "") if isinstance(item, dict) else ""
    return str(message).startswith(("Two equal environments differ here", NO_FLOOR))


Said = Callable[[Path, tuple[str, ...]], str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command says of the folders in a place; in this process, as a page's scripts are
    made once in each."""
    for name, value in SETTING.items():
        monkeypatch.setenv(name, value)

    def said(place: Path, command: tuple[str, ...]) -> str:
        monkeypatch.chdir(place)
        argv = [
            str(next(place.glob(word)).relative_to(place)) if "/*" in word else word
            for word in command
        ]
        monkeypatch.setattr(sys, "argv", ["ullage", *argv])
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        assert not end.value.code, output.err
        return _data((place / PAGE).read_text()) if PAGE in command else output.out

    return said


def _copy(place: Path) -> Path:
    """Folders of every kind; reading writes tables into them."""
    return Path(shutil.copytree(OLD, place / "old", ignore=shutil.ignore_patterns(READINGS.name)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _copy(tmp_path_factory.mktemp("folders"))


@pytest.mark.parametrize(("kind", "command", "file"), TABLE, ids=[row[2] for row in TABLE])
def test_it_reads_as_it_did(
    place: Path, said: Said, kind: str, command: tuple[str, ...], file: str
) -> None:
    assert any(word.startswith(kind) for word in command)
    assert difference(file, said(place, command), (READINGS / file).read_bytes().decode()) is None


@pytest.mark.parametrize(
    ("text", "reading", "difference"),
    [
        ("1.23456789012, 5", "1.23456789019, 5", None),
        ("0.0 s", "3e-17 s", None),
        ("-1.0 s", "1.0 s", "-1.0 was 1.0"),
        ("1.2345678", "1.2345679", "1.2345678 was 1.2345679"),
        (
            "1764088913000000001",
            "1764088913000000002",
            "1764088913000000001 was 1764088913000000002",
        ),
        ("worse 1.2", "better 1.2", "'worse ' was 'better '"),
        ("1.2 1.3", "1.2", "' ' was ''"),
        ("5 of", "5 of6", "one is longer"),
    ],
)
def test_only_the_last_digits_may_differ(text: str, reading: str, difference: str | None) -> None:
    assert first_difference(text, reading) == difference


def test_one_other_figure_is_seen(tmp_path: Path, said: Said) -> None:
    place = _copy(tmp_path)
    journal = next(place.glob("run/*/journal.jsonl"))
    text = journal.read_text()
    figure = re.search(r'"events_per_second":(\d+)', text)
    assert figure is not None
    start, end = figure.span(1)
    journal.write_text(f"{text[:start]}{int(figure[1]) + 1}{text[end:]}")
    file = "run-show.json"
    command = next(row[1] for row in TABLE if row[2] == file)
    assert difference(file, said(place, command), (READINGS / file).read_bytes().decode())
