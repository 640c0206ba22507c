"""Folders that an older ullage left read the same today: what is printed, byte for byte, but for
the last digits of a figure that was computed, which another make of CPU rounds otherwise.

`old_folders/KIND/` holds runs of a kind as they were left, without what is derived from them;
`old_folders/readings/` holds what the ullage that made them, 0.1.0, said of them; where rules 2
of verdicts (`ullage.stats.RULES`) say otherwise, what those say, and `readings/rules-1/` what was
said before: all but the fields of `RULES_2` are the same. None of them may be
made anew to please a change: a difference is an old run that reads otherwise. (Rules 3 changed one
number in them, that of the rules. What a study sets beside runs was read anew when studies came to
ask what was published, and nothing of another setting, when they came to have tables of the clock's
loops and order and of their plans, lines in pages, and plans of the ocean program and of clouds,
and when what was published of another setting still left them: the runs' own figures stayed.)
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from ullage.analysis import overhead
from ullage.cli.main import main
from ullage.runs.reader import RunFolder
from ullage.stats import RULES

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
    ("cloud", ("show", "cloud/*", "--json"), "cloud-show.json"),
    ("cloud", ("show", "cloud/*", "--details"), "cloud-show.txt"),
    ("allocation", ("show", "allocation/*"), "allocation-show.txt"),
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


def first_missing(page: str, reading: str) -> str | None:
    """The first line of a reading that a page does not say any more, in its place; None: it says
    all. A page may say more than it did."""
    lines = iter(page.split("\n"))
    for wanted in reading.split("\n"):
        if all(first_difference(line, wanted) is not None for line in lines):
            return wanted
    return None


Reading = Callable[[Path, tuple[str, ...]], str]


@pytest.fixture
def reading_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reading:
    """What a command says of the folders in a place; in this process, as a page's scripts are
    made once in each."""
    for name, value in SETTING.items():
        monkeypatch.setenv(name, value)

    def reading_of(place: Path, command: tuple[str, ...]) -> str:
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

    return reading_of


def _copy(place: Path) -> Path:
    """Folders of every kind; reading writes tables into them."""
    return Path(shutil.copytree(OLD, place / "old", ignore=shutil.ignore_patterns(READINGS.name)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _copy(tmp_path_factory.mktemp("folders"))


@pytest.mark.parametrize(("kind", "command", "file"), TABLE, ids=[row[2] for row in TABLE])
def test_it_reads_as_it_did(
    place: Path, reading_of: Reading, kind: str, command: tuple[str, ...], file: str
) -> None:
    assert any(word.startswith(kind) for word in command)
    text, reading = reading_of(place, command), (READINGS / file).read_bytes().decode()
    difference = first_missing if PAGE in command else first_difference
    assert difference(text, reading) is None


RULES_2: Final = frozenset(
    {
        "blocks_to_settle",  # both copies need them
        "budget",  # a side that always prints the same has a step too
        "components",
        "cost",  # bills are arithmetic means
        "cost_high",
        "cost_low",
        "cost_ratio",
        "cost_ratio_high",
        "cost_ratio_low",
        "doubts",  # whether two copies differ is asked of the whole run
        "floor",  # unknown where two copies always print the same
        "floor_biased",
        "mean",  # of makings, not of trials
        "money",
        "p_difference_adjusted",  # the larger one of both copies
        "p_equivalence_adjusted",
        "type_b",
        "why",
    }
)
"""Fields that rules 2 fill otherwise. Verdicts, ratios and intervals are none of them."""


@pytest.mark.parametrize("old", sorted((READINGS / "rules-1").iterdir()), ids=lambda p: p.name)
def test_rules_2_changed_nothing_else(old: Path) -> None:
    then, now = (json.loads(file.read_bytes()) for file in (old, READINGS / old.name))
    assert changed(now, then) == []


def changed(now: Any, then: Any, field: str = "") -> list[str]:
    """Fields of an old reading that are others now, but for those that may be; more may come."""
    if field in RULES_2:
        return []
    if isinstance(then, dict) and isinstance(now, dict):
        return [name for key in then for name in changed(now.get(key), then[key], key)]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [name for pair in zip(now, then, strict=True) for name in changed(*pair, field)]
    same = now == (pytest.approx(then, rel=1e-9) if isinstance(then, float) else then)
    return [] if same else [field]


@pytest.mark.parametrize("kind", ["run", "duet", "curve"])
def test_what_was_said_is_known_of_every_rules_since(kind: str) -> None:
    """By rules 1 the verdicts are those of 0.1.0; what is told is what differs from them."""
    folder = RunFolder.open(next((OLD / kind).iterdir()))
    then = json.loads((READINGS / "rules-1" / f"{kind}-show.json").read_bytes())["comparisons"]
    earlier = {(c["environment"], c["workload"], c["metric"]): c["verdict"] for c in then}
    for rules in range(1, RULES + 1):
        by = {
            (j.draft.environment.key, j.draft.workload.key, j.draft.metric.name): j.verdict
            for j in overhead.judged(folder, rules)
        }
        assert by.keys() == earlier.keys()
        assert rules > 1 or by == earlier


def test_another_verdict_is_seen() -> None:
    then = json.loads((READINGS / "rules-1" / "run-show.json").read_bytes())
    now = json.loads((READINGS / "run-show.json").read_bytes())
    now["comparisons"][0]["verdict"] = "better"
    assert changed(now, then) == ["verdict"]


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


def test_one_other_figure_is_seen(tmp_path: Path, reading_of: Reading) -> None:
    place = _copy(tmp_path)
    journal = next(place.glob("run/*/journal.jsonl"))
    text = journal.read_text()
    figure = re.search(r'"events_per_second":(\d+)', text)
    assert figure is not None
    start, end = figure.span(1)
    journal.write_text(f"{text[:start]}{int(figure[1]) + 1}{text[end:]}")
    file = "run-show.json"
    command = next(row[1] for row in TABLE if row[2] == file)
    assert first_difference(reading_of(place, command), (READINGS / file).read_bytes().decode())
