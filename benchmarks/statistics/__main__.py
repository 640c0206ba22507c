"""The command line of the truth machine."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figures import write
from benchmarks.statistics import aims, record, run_all, table, tables
from benchmarks.statistics.attacks.regimes import ATTACKS
from benchmarks.statistics.run_all import FULL, QUICK, Results
from benchmarks.statistics.table import Table
from ullage.common.errors import UllageError


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few campaigns: a minute or two")
    size.add_argument(
        "--full", action="store_true", help="10,000 campaigns each, of attacks 1,000 (the default)"
    )
    size.add_argument(
        "--attacks", type=int, metavar="N", help="the attacks alone, N campaigns of each"
    )
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="of --attacks: those whose names hold the words"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the aims, as all benchmarks print them")
    form.add_argument("--counts", action="store_true", help="every count, as JSON")
    form.add_argument("--markdown", action="store_true", help="the tables, as the docs have them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record this machine's noise")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to record")
    parser.add_argument(
        "--measures",
        default=",".join(measure.key for measure in record.MEASURES),
        help="what to record (%(default)s)",
    )
    parser.add_argument("--note", default="", help="what else the recording's header says")
    options = parser.parse_args(argv)
    if options.jobs < 1 or not options.minutes > 0:
        parser.error("--jobs and --minutes must be above 0")
    if options.attacks is not None and (options.attacks < 1 or options.json or options.counts):
        parser.error("--attacks must be above 0, and is printed as tables")
    if options.only and options.attacks is None:
        parser.error("--only goes with --attacks")
    if not any(options.only in attack.name for attack in ATTACKS):
        parser.error(f"no attack's name holds {options.only!r}")
    return options


def counts(results: Results) -> dict[str, Any]:
    return {
        "campaigns": results.size.campaigns,
        "figures": [asdict(figure) for figure in aims.figures(results)],
        "regimes": [
            {
                "name": o.regime.name,
                "says": o.regime.says,
                "synthetic": o.regime.synthetic,
                "shares": {key: asdict(share) for key, share in o.shares.items()},
                "targets": o.targets,
                "blocks": o.blocks,
                "trials": o.trials,
            }
            for o in results.outcomes
        ],
        "needed": [
            {
                "regime": row.regime.name,
                "effect": row.effect,
                **{name: asdict(size) for name, size in row.designs.items()},
            }
            for row in results.sample_sizes
        ],
        "again": [asdict(null) for null in results.nulls],
        "said": [asdict(claim) for claim in results.doc_claims],
        "attacks": [
            {
                "name": of.attack.name,
                "says": of.attack.says,
                "blocks": of.attack.layout.blocks,
                "family": of.attack.layout.family,
                "campaigns": of.campaigns,
                "shares": {key: asdict(share) for key, share in of.shares.items()},
                "false_verdicts": of.false_verdicts,
                "doubts": dict(of.spoke),
                "comparisons": of.comparisons,
                "doubts_of_all": dict(of.spoke_at_all),
            }
            for of in results.struck
        ],
        "totals": [asdict(paid) for paid in results.paid],
    }


def main(argv: list[str] | None = None) -> None:
    """Record, or simulate and print."""
    options = arguments(argv)
    if options.record is not None:
        try:
            turns = record.record(
                options.record, options.minutes, options.measures.split(","), options.note
            )
        except UllageError as error:
            raise SystemExit(f"{error.message}: {error.hint}") from None
        except record.RecordingError as error:
            raise SystemExit(str(error)) from None
        print(f"{turns} turns written to {options.record}")
        return
    if options.attacks is not None:
        struck = run_all.attacked(options.attacks, options.only, options.jobs)
        _print(tables.of_attacks(struck), options.markdown)
        return
    results = run_all.run(QUICK if options.quick else FULL, options.jobs)
    if options.json:
        write(aims.figures(results), as_json=True)
    elif options.counts:
        json.dump(counts(results), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        _print(tables.tables(results), options.markdown)


def _print(printed: list[Table], markdown: bool) -> None:
    if markdown:
        sys.stdout.write(table.markdown(printed))
    else:
        table.show(printed)


if __name__ == "__main__":
    main()
