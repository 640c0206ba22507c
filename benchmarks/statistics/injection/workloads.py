"""Workloads whose work is a nominal amount times the factor of the environment.

Everything but the amount is the product's: its commands, its exact reading of what the tools print.
The figure is the time that the tool itself gives for the work, so that starting the process does
not dilute the factor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError

from ullage.runs.records import Curve, Metric, Scalar
from ullage.workloads.base import (
    Context,
    InvalidTrialError,
    Output,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.cpu.sysbench import Sysbench, SysbenchParameters
from ullage.workloads.cpu.sysbench_cpu import SysbenchCpu, SysbenchCpuParameters
from ullage.workloads.cpu.sysbench_memory import SysbenchMemory, SysbenchMemoryParameters
from ullage.workloads.network.iperf3 import Iperf3, Iperf3Parameters
from ullage.workloads.output import output_of, quoted
from ullage.workloads.storage.sysbench_fileio import SysbenchFileio, SysbenchFileioParameters

PERCENTS: Final = (100, 105, 110, 125)
"""The factors, in percent."""
STEP: Final = 20
"""Of a multiple of so many units, every factor makes a whole number."""
MARK: Final = "injection.json"
"""File in an instance's data directory that says its factor."""
SHARED: Final = "shared"
"""Directory beside those of the instances, for files that all of them read."""
MIB: Final = 1 << 20
PIECE: Final = 128 << 10
"""iperf3 sends no less at a time."""
READ: Final = 16 << 10
"""Bytes of one request to the disk."""

SECONDS: Final = Metric(
    name="seconds",
    unit="s",
    better="lower",
    primary=True,
    description="Time that the tool itself gives for the work of the trial.",
)
WORK: Final = Metric(
    name="work",
    unit="1",
    better="lower",
    description="Units of work that the tool says it did.",
)


class Mark(BaseModel):
    """What an instance is to its workloads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    percent: int
    prepares: bool = False
    """It writes the files that the instances share: no disk work may differ by their place."""

    @classmethod
    def read(cls, context: Context) -> Mark:
        """The mark that the provider left."""
        return cls.model_validate_json(Path(context.data, MARK).read_text())


def scaled(nominal: int, percent: int) -> int:
    """Exactly `percent` % of the nominal work; ValueError when that is no whole number."""
    amount, remainder = divmod(nominal * percent, 100)
    if remainder:
        raise ValueError(f"{percent} % of {nominal} is no whole number")
    return amount


class ScaledParameters(Parameters):
    """How much is nominal."""

    work: int = Field(STEP, ge=STEP, multiple_of=STEP, description="units of work at factor 1")


class Scaled(Workload[ScaledParameters]):
    """Work of a known amount, times the environment's factor."""

    parameters_model = ScaledParameters
    metrics = (SECONDS, WORK)
    unit: ClassVar[str]
    """What is counted."""
    first_guess: ClassVar[int]
    """Units that take some tenths of a second on a usual machine."""

    def duration_s(self, parameters: ScaledParameters) -> float:
        """The first guesses are of this order."""
        return 0.3 * parameters.work / self.first_guess

    @abstractmethod
    def done(self, amount: int, outputs: Mapping[str, Output]) -> float:
        """Seconds that so much work took; InvalidTrialError when other work was done."""

    def check(self, parameters: ScaledParameters, outputs: Mapping[str, Output]) -> None:
        """The work is the nominal one times one of the factors, all of it.

        A trial does not see which factor it should have been; `recorded.wrong_work` looks at that.
        """
        self._done(parameters, outputs)

    def parse(
        self, parameters: ScaledParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        seconds, amount = self._done(parameters, outputs)
        return {SECONDS.name: seconds, WORK.name: float(amount)}

    def _done(
        self, parameters: ScaledParameters, outputs: Mapping[str, Output]
    ) -> tuple[float, int]:
        fault: InvalidTrialError | None = None
        for percent in PERCENTS:
            amount = scaled(parameters.work, percent)
            try:
                return self.done(amount, outputs), amount
            except InvalidTrialError as error:
                fault = fault or error
        raise fault or InvalidTrialError("no factor")


class ScaledSysbench(Scaled):
    """A test of sysbench with a fixed number of events or bytes."""

    packages = ("sysbench",)
    product: ClassVar[Sysbench[Any]]

    def programs(self, parameters: ScaledParameters) -> Mapping[str, str]:
        return {"sysbench": "sysbench"}

    @abstractmethod
    def product_parameters(self, amount: int) -> SysbenchParameters:
        """The product's parameters for so much work."""

    def tasks(self, parameters: ScaledParameters, context: Context) -> Sequence[Task]:
        amount = scaled(parameters.work, Mark.read(context).percent)
        return self.product.tasks(self.product_parameters(amount), context)

    def done(self, amount: int, outputs: Mapping[str, Output]) -> float:
        """As the product checks and reads it."""
        self.product.check(self.product_parameters(amount), outputs)
        seconds = self.product.parse(self.product_parameters(amount), outputs)["total_time_s"]
        assert isinstance(seconds, float)
        return seconds


class ScaledCpu(ScaledSysbench):
    """Events of `sysbench cpu`, one thread."""

    name = "cpu"
    resource = "cpu"
    unit = "events"
    first_guess = 8_000
    product = SysbenchCpu()

    def product_parameters(self, amount: int) -> SysbenchParameters:
        """Events of about 30 µs."""
        return SysbenchCpuParameters(prime=2_000, time_s=None, events=amount)


class ScaledMemory(ScaledSysbench):
    """MiB written by `sysbench memory`, one thread."""

    name = "memory"
    resource = "memory"
    unit = "MiB"
    first_guess = 6_000
    product = SysbenchMemory()

    def product_parameters(self, amount: int) -> SysbenchParameters:
        """Blocks of 1 MiB."""
        return SysbenchMemoryParameters(time_s=None, total_size=ByteSize(amount * MIB))


class ScaledDisk(ScaledSysbench):
    """Random reads of 16 KiB past the page cache by `sysbench fileio`.

    All instances read the same files, at places that the block's seed gives.
    """

    name = "disk"
    resource = "disk"
    unit = "reads"
    first_guess = 3_000
    product = SysbenchFileio()

    def product_parameters(self, amount: int) -> SysbenchFileioParameters:
        """128 MiB in four files."""
        return SysbenchFileioParameters(
            files=4,
            total_size=ByteSize(128 * MIB),
            block_size=ByteSize(READ),
            time_s=None,
            events=amount,
        )

    def prepare(self, parameters: ScaledParameters, context: Context) -> Sequence[Task]:
        """Write the files, if this is the instance that does."""
        if not Mark.read(context).prepares:
            return ()
        tasks = self.product.prepare(self.product_parameters(parameters.work), context)
        # The engine runs these in the workspace, whatever the task says.
        prefix = ("env", "-C", _shared(context))
        return [replace(task, argv=(*prefix, *task.argv)) for task in tasks]

    def tasks(self, parameters: ScaledParameters, context: Context) -> Sequence[Task]:
        """The product's command, where the files are."""
        return [replace(task, cwd=_shared(context)) for task in super().tasks(parameters, context)]


def _shared(context: Context) -> str:
    return str(Path(context.data).parent / SHARED)


class ScaledNetwork(Scaled):
    """Pieces of 128 KiB received by `iperf3 -R -n` over the run's bridge, one connection.

    The receiver says when it has got all of it; a sender would stop with a part still in buffers.
    What it reads beyond that before it stops is in its time and its bytes: both count.
    """

    name = "network"
    resource = "network"
    packages = ("iperf3",)
    unit = "pieces of 128 KiB"
    first_guess = 4_000
    product = Iperf3()
    parameters = Iperf3Parameters(direction="receive")

    def programs(self, parameters: ScaledParameters) -> Mapping[str, str]:
        return {"iperf3": "iperf3"}

    def roles(self, parameters: ScaledParameters) -> Sequence[Role]:
        """The client in the instance, the server at the host's end."""
        return self.product.roles(self.parameters)

    def tasks(self, parameters: ScaledParameters, context: Context) -> Sequence[Task]:
        """The product's commands, with an amount in place of a time."""
        size = scaled(parameters.work, Mark.read(context).percent) * PIECE
        return [
            replace(task, argv=_amount_for_time(task.argv, size))
            for task in self.product.tasks(self.parameters, context)
        ]

    def done(self, amount: int, outputs: Mapping[str, Output]) -> float:
        """All of it was received: the time for what was asked, at the rate of what came."""
        output = output_of(outputs, "client")
        try:
            report = _Iperf.model_validate_json(output.stdout)
        except ValidationError:
            raise InvalidTrialError(f"no result: {quoted(output.stdout, 200)}") from None
        requested, received = report.start.test_start.bytes, report.end.sum_received
        if requested != amount * PIECE:
            raise InvalidTrialError(f"{requested} bytes were asked for, not {amount * PIECE}")
        if not requested <= received.bytes <= 1.1 * requested:
            raise InvalidTrialError(f"{received.bytes} bytes came in place of {requested}")
        return received.seconds * requested / received.bytes


def _amount_for_time(argv: tuple[str, ...], size: int) -> tuple[str, ...]:
    """`-t SECONDS` becomes `-n BYTES`; a server's command has neither."""
    if "-t" not in argv:
        return argv
    at = argv.index("-t")
    return (*argv[:at], "-n", str(size), *argv[at + 2 :])


class _Moved(BaseModel):
    bytes: int
    seconds: float = Field(gt=0, allow_inf_nan=False)


class _End(BaseModel):
    sum_received: _Moved


class _TestStart(BaseModel):
    bytes: int


class _Start(BaseModel):
    test_start: _TestStart


class _Iperf(BaseModel):
    start: _Start
    end: _End


LOADS: Final[tuple[Scaled, ...]] = (ScaledCpu(), ScaledMemory(), ScaledDisk(), ScaledNetwork())
