"""Whether the comparison is fair, and where the figures come from."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.words import correction
from ullage.analysis.details import run_facts
from ullage.common.quantities import format_bytes, format_seconds
from ullage.common.regular import open_regular
from ullage.common.text import clean
from ullage.report.charts.text import duration
from ullage.report.views import Fold, Table, TableCell, TableRow, tabulate
from ullage.report.workloads import on_one_line
from ullage.runs.leaving import absent
from ullage.runs.reader import RunFolder
from ullage.runs.records import PLAN, EnvironmentRecord, ImageRecord, NodeRecord, Resolved

MOST_TEXTS: Final = 6
MOST_ROWS: Final = 300
MOST_TEXT: Final = 20_000
_UNITS: Final = {"power": "W", "energy": "J"}

ENDS: Final = {
    "precision": "every primary interval was narrow enough",
    "verdicts": "every primary comparison had its verdict",
    "budget": "the time budget was spent",
    "blocks": "all blocks were done",
    "interrupted": "it was interrupted",
    "failed": "it failed",
}


def parity(folder: RunFolder) -> Table:
    """Nuisances: equal, or allowed by the plan."""
    environments = folder.resolved.environments
    rows: list[TableRow] = []
    for item in folder.resolved.parity:
        if item.equal:
            state = TableCell("equal", "yes")
        else:
            state = TableCell("unequal, allowed by the plan" if item.allowed else "unequal", "no")
        values = (_nuisance(item.nuisance, item.values.get(e.key, "–")) for e in environments)
        rows.append((clean(item.nuisance, 60), state, *values))
    names = ("nuisance", "state", *(clean(e.label, 60) for e in environments))
    note = "" if rows else "This run has no record of nuisances."
    return tabulate("Parity of the environments", names, rows, note=note)


def _nuisance(name: str, value: str) -> str:
    return format_bytes(int(value)) if name == "memory" and value.isdecimal() else clean(value, 80)


def treatments(folder: RunFolder) -> Table:
    """What differs on purpose, by environment."""
    environments = folder.resolved.environments
    return _by_environment("Treatments", environments, {e.key: e.treatments for e in environments})


def _by_environment(
    caption: str,
    environments: Sequence[EnvironmentRecord],
    values: Mapping[str, Mapping[str, Any]],
) -> Table:
    names = list(dict.fromkeys(name for of in values.values() for name in of))
    rows = (
        (
            clean(name, 60),
            *(clean(on_one_line(values[e.key].get(name, "–")), 200) for e in environments),
        )
        for name in names
    )
    return tabulate(caption, ("what", *(clean(e.label, 60) for e in environments)), rows)


def environments(folder: RunFolder) -> Table:
    """What each environment is and how long it took to come up."""
    up: dict[str, list[float]] = {}
    for event in folder.provisioned:
        up.setdefault(event.environment, []).append(event.seconds)
    rows = []
    for e in folder.resolved.environments:
        seconds = up.get(e.key, [])
        rows.append(
            (
                clean(e.label, 60),
                clean(e.key, 60),
                clean(e.provider, 40),
                clean(", ".join(f"{k} {on_one_line(v)}" for k, v in e.options.items()) or "–", 300),
                f"second copy of {clean(e.again_of, 60)}" if e.again_of else "–",
                ", ".join(duration(s) for s in seconds[:8]) or "–",
                *([clean(_where(e.nodes), 200)] if folder.resolved.nodes else []),
            )
        )
    names = ["environment", "key", "provider", "options", "A/A", "time to come up"]
    names += ["nodes"] if folder.resolved.nodes else []
    return tabulate("Environments of this run", names, rows)


def _where(nodes: Sequence[str]) -> str:
    """`a, b (2 instances)`: which machine has how many."""
    counts = {name: nodes.count(name) for name in nodes}
    several = {name: f" ({count} instances)" for name, count in counts.items() if count > 1}
    return ", ".join(name + several.get(name, "") for name in counts) or "–"


def machines(nodes: Mapping[str, NodeRecord]) -> Table:
    """What each machine tells of itself, side by side."""
    facts = {
        name: {"reached as": node.address or "this machine, the controller", **node.facts}
        for name, node in nodes.items()
    }
    what = list(dict.fromkeys(key for known in facts.values() for key in known))
    rows = (
        (
            clean(key, 60),
            *(clean(on_one_line(known.get(key, "–")), 200) for known in facts.values()),
        )
        for key in what
    )
    names = ("what", *(clean(name, 60) for name in nodes))
    return tabulate("The machines that instances stood on", names, rows)


def pairs(folder: RunFolder, analysis: Analysis) -> list[tuple[str, str]]:
    """Facts about the run and the machine."""
    r = folder.resolved
    facts = [
        ("run", r.run),
        ("started", _instant(analysis.started_epoch_ns)),
        ("ended because", _end(folder)),
        ("sessions", str(len(folder.sessions))),
        ("blocks", f"{analysis.blocks} complete; asked for: {_plain(r.blocks)}"),
        ("trials", f"{analysis.trials}, {analysis.failed} without figures"),
        ("seed", str(r.seed)),
        ("margin, confidence", f"{rounding.share(r.margin)}, {rounding.share(r.confidence)}"),
        ("primary comparisons", correction(analysis)),
        *run_facts(analysis),
        *_precision(analysis),
        *_race(folder),
        ("resources", _plain(r.resources)),
        *([("network", _link(r.network))] if r.network else []),
        ("image", _image(r.image) if r.image else _no_image(r)),
        ("ullage", r.ullage),
        ("tag", r.tag),
    ]
    return [(name, clean(value, 400)) for name, value in facts]


def _link(network: Mapping[str, Any]) -> str:
    """In words; a run from before links could be late or several has a rate alone."""
    cables, words = int(network.get("links", 1)), []
    if "delay" in network:
        words.append(f"adds {rounding.quantity(network['delay'], 's')} each way")
    if "rate" in network:
        queue = rounding.quantity(network["queue"], "s")
        rate = rounding.quantity(network["rate"], "bit/s")
        words.append(f"carries {rate} each way; at most {queue} wait for it")
    if cables == 1:
        return f"each instance's link {' and '.join(words)}"
    bundle = f"each instance's link is {cables} cables by {network['bond']}"
    return f"{bundle}; each {' and '.join(words)}" if words else bundle


def _no_image(r: Resolved) -> str:
    own = any(environment.image for environment in r.environments)
    return "each environment's own, among its treatments" if own else "none"


def _image(image: ImageRecord) -> str:
    name = "" if image.reference is None else f" {image.reference} ({image.id})"
    return f"{image.kind}{name}, {image.digest}"


def _end(folder: RunFolder) -> str:
    """Why there are no more blocks."""
    end = folder.finished
    if end is None:
        return "it has no end: interrupted or running"
    hardly = (
        ", or hardly a chance of one" if end.reason == "verdicts" and _undecided(folder) else ""
    )
    return f"{ENDS[end.reason]}{hardly}"


def _undecided(folder: RunFolder) -> bool:
    """Has anything left without a verdict, that did not come back?"""
    begun = 1 + max((trial.block for trial in folder.trials), default=-1)
    return any(cell.undecided for cell in absent(folder.moves, begun).values())


def _race(folder: RunFolder) -> list[tuple[str, str]]:
    """When comparisons could leave, and what became of their intervals."""
    if not folder.judged:
        return []
    looks = ", ".join(str(look.blocks) for look in folder.judged)
    who = "what was decided, or unlikely to be," if _undecided(folder) else "what was decided"
    return [
        (
            "judged",
            f"after {looks} blocks; {who} left, each at its look's level, so that all "
            f"looks together have {rounding.share(folder.resolved.confidence)}",
        )
    ]


def _precision(analysis: Analysis) -> list[tuple[str, str]]:
    """What the plan asked for, and what the widest interval reached."""
    stop = analysis.stop
    if stop.widest_half_width is None:
        return []
    reached = f"± {rounding.share(stop.widest_half_width)} reached by the widest, {stop.widest}"
    if stop.target_half_width is None:
        return [("precision", reached)]
    target = f"± {rounding.share(stop.target_half_width)} asked for"
    return [
        (
            "precision",
            f"{target}, {reached}; intervals are {stop.widening:.2f} times wider for having looked",
        )
    ]


def _plain(values: Mapping[str, Any]) -> str:
    parts = []
    for name, value in values.items():
        if value is None:
            continue
        if name.endswith("_bytes") and isinstance(value, int):
            parts.append(f"{name.removesuffix('_bytes')} {format_bytes(value)}")
        elif (name == "budget" or name.endswith("_s")) and isinstance(value, int | float):
            parts.append(f"{name.removesuffix('_s')} {format_seconds(value)}")
        else:
            parts.append(f"{name} {on_one_line(value)}")
    return ", ".join(parts) or "–"


def _instant(epoch_ns: int | None) -> str:
    if epoch_ns is None:
        return "never"
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def again(folder: RunFolder) -> str:
    """Commands that do the run and its report again."""
    r = folder.resolved
    return clean(
        f"ullage run plan.yaml              # the plan below; `seed: {r.seed}` keeps the order\n"
        f"ullage report {shlex.quote(r.run)}    # this page, from the run folder alone",
        600,
    )


def failures(folder: RunFolder) -> Table | None:
    """Trials without figures by reason, the reasons as the guests gave them."""
    trials_by_reason: dict[tuple[str, str, str, str, str], list[str]] = {}
    for t in folder.trials:
        if t.status != "ok":
            code, message = (t.reason.code, t.reason.message) if t.reason else ("–", "–")
            key = (t.environment, t.workload, t.status, code, message)
            trials_by_reason.setdefault(key, []).append(clean(t.trial, 40))
    if not trials_by_reason:
        return None
    labels, titles = _labels(folder)
    rows = []
    for (environment, workload, *reason), trials in list(trials_by_reason.items())[:MOST_ROWS]:
        others = f" … and {len(trials) - MOST_TEXTS} more" if len(trials) > MOST_TEXTS else ""
        status, code, message = reason
        rows.append(
            (
                labels[environment],
                titles[workload],
                str(len(trials)),
                status,
                clean(code, 60),
                clean(message, 1000),
                _unbroken(", ".join(trials[:MOST_TEXTS])) + others,
            )
        )
    rest_rows = len(trials_by_reason) - MOST_ROWS
    names = ("environment", "workload", "trials", "status", "code", "reason", "which")
    note = f"{rest_rows:,} more reasons are in journal.jsonl." if rest_rows > 0 else ""
    return tabulate(
        "Trials without figures, by reason", names, rows, numbers=("trials",), note=note
    )


def _unbroken(name: str) -> str:
    return name.replace("-", "\N{NON-BREAKING HYPHEN}")


def _packages(image: ImageRecord) -> Fold:
    """With the hash of each, where the run has them, and where they all came from."""
    columns: tuple[str, ...] = ("package", "version")
    rows: list[tuple[str, ...]] = [
        (clean(name, 80), clean(version, 80)) for name, version in sorted(image.packages.items())
    ]
    if image.hashes:
        columns = (*columns, "SHA-256 of the .deb")
        digests = [clean(image.hashes.get(name, "–"), 80) for name in sorted(image.packages)]
        rows = [(*row, digest) for row, digest in zip(rows, digests, strict=True)]
    caption = f"Packages of the image, {len(rows)}"
    if image.snapshot:
        caption += f", from {clean(image.snapshot, 400)}"
    return Fold(caption, table=tabulate(caption, columns, rows))


def folds(folder: RunFolder) -> list[Fold]:
    """What is long: plan, facts, packages, order."""
    r = folder.resolved
    sections = [plan(folder.path)]
    if r.host:
        rows = [(clean(k, 60), clean(on_one_line(v), 600)) for k, v in r.host.items()]
        sections.append(Fold("The host", table=tabulate("Host facts", ("what", "value"), rows)))
    if r.nodes:
        sections.append(Fold("The nodes", table=machines(r.nodes)))
    facts = {e.key: e.facts for e in r.environments}
    if any(facts.values()):
        inside = _by_environment("What the agent saw inside", r.environments, facts)
        sections.append(Fold("Inside the environments", table=inside))
    if r.energy_meters:
        sections.append(Fold("The energy meters", table=_energy_meters(folder)))
    if r.image and r.image.packages:
        sections.append(_packages(r.image))
    sections.append(Fold("All trials, in order", table=_trials(folder), anchor="trials"))
    return sections


def _energy_meters(folder: RunFolder) -> Table:
    """A row for each channel of a meter: method, scope, observer and accuracy."""
    rows = []
    for meter in folder.resolved.energy_meters:
        options = ", ".join(
            f"{k} {on_one_line(v)}" for k, v in meter.options.items() if v is not None
        )
        settings = clean(options or "–", 300)
        named = (clean(meter.label, 60), clean(meter.meter, 40), settings, duration(meter.every_s))
        for c in meter.channels:
            step = rounding.quantity(c.resolution, _UNITS[c.kind]) if c.resolution else "–"
            accuracy = "–" if c.accuracy is None else f"± {rounding.share(c.accuracy)}"
            how = (clean(c.name, 60), c.kind, c.method, c.scope, c.observer)
            rows.append([*named, *how, step, accuracy, clean(c.source or "–", 200)])
        if not meter.channels:
            rows.append([*named, "it was not there: no energy from it", *["–"] * 7])
    names = ("label", "meter", "options", "every", "channel", "kind", "method", "scope", "observer")
    heads = (*names, "step", "accuracy", "source")
    return tabulate("Energy meters and what they tell", heads, rows)


def plan(run: Path) -> Fold:
    """The plan of the run in that folder, as it was written."""
    try:
        with open_regular(run / PLAN) as file:
            text = clean(file.read(4 * MOST_TEXT + 4).decode(errors="replace"), MOST_TEXT)
    except OSError:
        text = f"{PLAN} is not in the run folder."
    return Fold("The plan", text=text, anchor="plan")


def _trials(folder: RunFolder) -> Table:
    labels, titles = _labels(folder)
    rows = (
        (
            _unbroken(clean(t.trial, 40)),
            str(t.block),
            labels[t.environment],
            titles[t.workload],
            t.status,
            duration((t.end_ns - t.start_ns) / 1e9),
        )
        for t in folder.trials[:MOST_ROWS]
    )
    others = len(folder.trials) - MOST_ROWS
    note = f"{others:,} more are in journal.jsonl and samples.parquet." if others > 0 else ""
    names = ("trial", "block", "environment", "workload", "status", "length")
    return tabulate("Order of the trials", names, rows, numbers=("block", "length"), note=note)


def _labels(folder: RunFolder) -> tuple[dict[str, str], dict[str, str]]:
    return (
        {e.key: clean(e.label, 60) for e in folder.resolved.environments},
        {w.key: clean(w.title, 80) for w in folder.resolved.workloads},
    )


def failures_lead(analysis: Analysis) -> str:
    return (
        f"{analysis.failed} of {analysis.trials} trials have no figures. A failed trial drops its "
        "pair; it is never a zero and never tried again in silence. The reasons are shown as text, "
        "as they came from inside."
    )


WORDS: Final[Iterable[tuple[str, str]]] = (
    ("ullage", "the empty part of a barrel; here the part of the machine that does not arrive"),
    ("environment", "where a workload runs: native, a container, a VM"),
    ("workload", "what runs, with its parameters"),
    ("trial", "one execution of one workload in one environment"),
    ("block", "every workload in every environment once, in random order; a pair is of one block"),
    ("ratio", "how many times worse than the baseline; for rates the baseline divided by it"),
    ("interval", "where the true ratio lies, with the stated confidence"),
    ("making", "a start of the instances from nothing; trials of one making are alike"),
    ("Type A, Type B", "uncertainty seen by repeating, and that of the instruments themselves"),
    ("repeatability", "what the same instances would give again"),
    ("intermediate precision", "what instances made anew on the same host would give"),
    ("reproducibility", "what another host would give: no single run can say it"),
    ("duet", "two environments at the same time, each on half of the CPUs"),
    ("noise floor", "the ratio that two equal environments show in this run"),
    ("worse, better", "the difference is proven against either copy of the baseline"),
    ("equivalent", "the ratio is proven to be within the margin"),
    ("inconclusive", "neither is proven yet"),
    ("A/A", "an environment against a second copy of itself"),
    ("treatment", "what differs on purpose: the thing that is compared"),
    ("nuisance", "what must not differ, or the comparison is unfair"),
)
