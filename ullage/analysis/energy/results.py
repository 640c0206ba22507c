"""What did the work take, against the baseline? The energies of a run, compared as its figures are.

They are secondary: their verdicts are a family of their own, and an estimate has none at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ullage.analysis.comparison import judging, pairing
from ullage.analysis.comparison.energy_model import Energy, EnergyFigure, EnergyNote
from ullage.analysis.comparison.money import work
from ullage.analysis.comparison.pairing import Draft, TrialSource
from ullage.analysis.comparison.systematic import budget_with, expanded
from ullage.analysis.comparison.words import name
from ullage.analysis.energy import figures, notes
from ullage.analysis.energy.figures import EnergyQuantity, Typical
from ullage.analysis.energy.trials import MeteredSource, TrialEnergy, metered
from ullage.runs.events import Trial
from ullage.runs.pairs import Cells
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, Resolved, WorkloadRecord
from ullage.stats.verdict import Judgement, judge

_K = 2.0
"""Coverage factor of an absolute figure's interval, about 95 %."""


@dataclass(frozen=True)
class Energies:
    """All that a run says of energy."""

    energies: tuple[Energy, ...]
    notes: tuple[EnergyNote, ...]


def of(folder: RunFolder, source: TrialSource) -> Energies:
    """The energies of a run and what is to be known of them; nothing without meters."""
    sources = metered(folder)
    energies = [
        energy for of_meter in sources for energy in _Compared(folder, source, of_meter).energies()
    ]
    return Energies(tuple(energies), notes.of(folder, sources))


@dataclass(frozen=True)
class _MeteredCell:
    """One environment and workload."""

    environment: EnvironmentRecord
    workload: WorkloadRecord
    trials: Sequence[Trial]
    having: Sequence[TrialEnergy]


class _Compared:
    """The comparisons by one source."""

    def __init__(self, folder: RunFolder, source: TrialSource, of_meter: MeteredSource) -> None:
        self._resolved: Resolved = folder.resolved
        self._metered = of_meter
        ok = [trial for trial in folder.trials if trial.status == "ok"]
        with_energy = {
            trial.trial: trial
            for trial in figures.with_energies(ok, self._resolved.workloads, of_meter)
        }
        trials = [with_energy.get(trial.trial, trial) for trial in folder.trials]
        self._ok = pairing.by_cell(with_energy.values())
        self._source = replace(source, cells=Cells(trials))
        self._environments = {e.key: e for e in self._resolved.environments}

    def energies(self) -> list[Energy]:
        """By workload, the baseline first; a cell without a single energy is left out."""
        drafts: list[tuple[int, Draft]] = []
        all_energies: list[Energy] = []
        for workload in self._resolved.workloads:
            for cell in self._cells(workload):
                metrics: list[Metric | None] = [*figures.works(workload)]
                for metric in metrics or [None]:
                    energy, draft = self._energy(cell, metric)
                    if draft is not None:
                        drafts.append((len(all_energies), draft))
                    all_energies.append(energy)
        for (place, _), judgement in zip(drafts, self._judged(drafts), strict=True):
            all_energies[place] = _with_verdict(all_energies[place], judgement)
        return all_energies

    def _cells(self, workload: WorkloadRecord) -> Iterator[_MeteredCell]:
        keys = [e.key for e in self._resolved.environments if e.again_of is None]
        baseline = self._resolved.baseline
        for key in sorted(keys, key=lambda key: key != baseline):
            trials = self._ok.get((key, workload.key), [])
            having = self._having(trials)
            if having:
                yield _MeteredCell(self._environments[key], workload, trials, having)

    def _having(self, trials: Sequence[Trial]) -> list[TrialEnergy]:
        energies = (self._metered.trials.get(trial.trial) for trial in trials)
        return [energy for energy in energies if isinstance(energy, TrialEnergy)]

    def _energy(self, cell: _MeteredCell, metric: Metric | None) -> tuple[Energy, Draft | None]:
        by_field, draft = self._figures(cell, metric)
        typical, meter, environment = (
            Typical.of(cell.having),
            self._metered.source,
            cell.environment,
        )
        base = self._resolved.baseline
        unequal = self._source.unequal(environment.key, base)
        energy = Energy(
            environment=environment.key,
            environment_label=name(
                environment.label, emulated=environment.emulated, unequal=unequal
            ),
            workload=cell.workload.key,
            workload_title=cell.workload.title,
            label=meter.label,
            meter=meter.meter,
            method=meter.method,
            scope=meter.scope,
            trials=len(cell.trials),
            having=len(cell.having),
            metric=metric.name if metric else None,
            work=work(metric.unit, metric.better, part=metric.part) if metric else None,
            relative_u_sampling=typical.sampling,
            relative_u_resolution=typical.resolution,
            relative_u_accuracy=typical.accuracy or None,
            **by_field,
        )
        return energy, draft if meter.method != "estimated" else None

    def _figures(
        self, cell: _MeteredCell, metric: Metric | None
    ) -> tuple[dict[str, EnergyFigure | None], Draft | None]:
        """By field of `Energy`; and the comparison that is judged, of the energy per unit."""
        quantities: dict[str, EnergyQuantity | None] = {
            "energy": figures.ENERGY,
            "mean_power": figures.MEAN_POWER,
            "above_idle": figures.ABOVE_IDLE,
            "per_unit": figures.per_unit(metric) if metric else None,
            "energy_delay": figures.energy_delay(metric) if metric else None,
        }
        by_field: dict[str, EnergyFigure | None] = {}
        judged = None
        for field, quantity in quantities.items():
            draft = self._draft(cell, quantity) if quantity else None
            by_field[field] = self._figure(cell, quantity, draft) if quantity else None
            judged = draft if field == "per_unit" and by_field[field] else judged
        return by_field, judged

    def _draft(self, cell: _MeteredCell, quantity: EnergyQuantity) -> Draft | None:
        """None: the cell is the baseline's."""
        baseline = self._environments[self._resolved.baseline]
        if cell.environment is baseline:
            return None
        return pairing.draft(
            self._source, cell.environment, baseline, cell.workload, quantity.as_metric()
        )

    def _figure(
        self, cell: _MeteredCell, quantity: EnergyQuantity, draft: Draft | None
    ) -> EnergyFigure | None:
        """None: no trial of the cell has it."""
        confidence = self._source.settings.confidence
        series = self._source.cells.series(cell.environment.key, cell.workload.key)
        values = pairing.absolute(series, quantity.as_metric(), confidence)
        if values is None:
            return None
        systematic = _K * Typical.of(cell.having).relative(quantity) * abs(values.median)
        bounds = [
            None
            if bound is None
            else values.median + sign * math.hypot(bound - values.median, systematic)
            for bound, sign in ((values.median_low, -1), (values.median_high, 1))
        ]
        figure = EnergyFigure(unit=quantity.unit, values=values, low=bounds[0], high=bounds[1])
        if draft is None:
            return figure
        floor = judging.floor_of(draft, self._again(draft))
        return figure.model_copy(
            update={
                "ratio": pairing.draft_interval(draft),
                "budget": budget_with(draft, self._components(draft, quantity)),
                "floor": floor.ratio if floor and math.isfinite(floor.ratio) else None,
            }
        )

    def _again(self, draft: Draft) -> list[Draft]:
        """The A/A comparisons of the same figure."""
        return [
            pairing.draft(
                self._source,
                environment,
                self._environments[environment.again_of],
                draft.workload,
                draft.metric,
            )
            for environment in self._resolved.environments
            if environment.again_of is not None
        ]

    def _components(self, draft: Draft, quantity: EnergyQuantity) -> figures.EnergyComponents:
        mine, theirs = (self._having(trials) for _, trials in draft.sides)
        if not (mine and theirs):
            return ()
        return figures.components(quantity, Typical.of(mine), Typical.of(theirs))

    def _judged(self, drafts: Sequence[tuple[int, Draft]]) -> list[Judgement | None]:
        """One family, by the run's margin, confidence and correction."""
        settings = self._source.settings
        cases = []
        for _, draft in drafts:
            copies = judging.copies_of(draft, self._again(draft))
            parts = self._components(draft, figures.ENERGY)
            cases.append(judging.member(draft, copies, expanded(parts)))
        judged = judge(cases, settings.margin, settings.confidence, self._resolved.correction)
        return [
            None if draft.no_verdict else judgement
            for (_, draft), judgement in zip(drafts, judged, strict=True)
        ]


def _with_verdict(energy: Energy, judgement: Judgement | None) -> Energy:
    if judgement is None or energy.per_unit is None:
        return energy
    figure = energy.per_unit.model_copy(update={"verdict": judgement.verdict})
    return energy.model_copy(update={"per_unit": figure})
