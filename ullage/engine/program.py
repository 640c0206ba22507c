"""One program of a trial: where it runs, how it ended, and whether that can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.common.quantities import memory_bytes
from ullage.common.text import printable
from ullage.environments import Instance
from ullage.environments.agent.client import Process, ProgramEnd
from ullage.runs.events import Reason
from ullage.workloads.base import Output, Task

CPU_TOLERANCE: Final = 1.10
CPU_SLACK_S: Final = 0.1
"""A program that used more CPU time than CPU_TOLERANCE times its limit, and CPU_SLACK_S for each of
its CPUs, ran without the limit, or is lied about: a quota is given for periods of 0.1 s, and a
kernel counts in ticks."""

EARLY_NS: Final = 1_000_000
"""No agent starts a program so much before the agreed instant, beyond the clock's bound."""

LAG_NS: Final = 250_000_000
LAG_SHARE: Final = 0.1
"""The news of an end is no older than the larger of LAG_NS and this share of the program's time."""

NEWS_NS: Final = 2_000_000
"""And so much for each program of the trial: the controller hears of their ends one by one."""

HELD_NS: Final = 1_250_000_000
"""Of that no more is the agent's wait for others who hold the program's output: it gives them 1 s,
then takes what there is."""


class TrialFailedError(Exception):
    """The work could not be done; carries the reason that the journal gets."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.reason = Reason(code=code, message=message)


@dataclass
class Part:
    """One program of the trial."""

    name: str
    """Role, with the number of its team when there are several."""
    task: Task
    instance: Instance
    cwd: str
    own: bool = True
    """One of the workload's tasks; else what one of them had started, what proves their work, or a
    neighbour."""
    process: Process | None = None
    finished: ProgramEnd | None = None
    memory_kills: int = 0
    swap: str = ""
    """What its instance may swap, `512MiB on zram`; empty: nothing."""
    """As of `OutputStream`."""

    async def wait(self) -> None:
        """Until it has ended."""
        assert self.process is not None
        await self.process.started()
        self.finished = await self.process.wait()

    def check(self, instant_ns: int, programs: int = 1) -> None:
        """TrialFailedError unless it ended by itself, in time, within its limits.

        instant_ns: the agreed start, on the controller's clock. programs: of the trial.
        """
        done, process = self._ended()
        if done.timed_out:
            raise TrialFailedError(
                "timeout",
                f"{self.name} did not end within {self.task.timeout_s:g} s and was killed",
            )
        if done.signal is not None:
            swap = f", and of swap ({self.swap})" if self.swap else ""
            why = f"its instance ran out of memory{swap}; " if self.memory_kills else ""
            raise TrialFailedError(
                "killed", f"{self.name} was killed by signal {done.signal}: {why}{_tail(process)}"
            )
        if not process.complete:
            raise TrialFailedError(
                "output-cut",
                f"{self.name} printed more than is looked at: have it print less, or into a file; "
                "all of it is in the run folder",
            )
        self._check_clock(done, instant_ns, programs)
        self.check_usage()

    def output(self) -> Output:
        """What the workload may look at."""
        done, process = self._ended()
        return Output(
            status=done.status,
            signal=done.signal,
            stdout=process.stdout.decode("utf-8", "replace"),
            stderr=process.stderr.decode("utf-8", "replace"),
            seconds=(done.end_ns - done.start_ns) / 1e9,
            usage=done.usage,
            memory_kills=self.memory_kills,
        )

    def tail(self) -> str:
        """The end of what it printed, for a message."""
        return _tail(self._ended()[1])

    def _ended(self) -> tuple[ProgramEnd, Process]:
        assert self.finished is not None and self.process is not None
        return self.finished, self.process

    def _check_clock(self, done: ProgramEnd, instant_ns: int, programs: int) -> None:
        """Start and end are told by the instance: they must fit what was seen from here.

        A guest whose clock runs slow, was stepped or lies would else hand us its own figure: tools
        inside measure with the same clock.
        """
        early = instant_ns - done.clock_bound_ns - EARLY_NS
        late = done.arrived_ns + done.clock_bound_ns
        lag = done.arrived_ns - done.end_ns - min(done.held_ns, HELD_NS)
        lasted = done.arrived_ns - instant_ns
        most = most_lag_ns(lasted, programs) + done.clock_bound_ns
        if early <= done.start_ns and done.end_ns <= late and lag <= most:
            return
        raise TrialFailedError(
            "clock-broken",
            f"{self.name} says that it took {(done.end_ns - done.start_ns) / 1e9:.3f} s, from "
            f"{(done.start_ns - instant_ns) / 1e9:+.3f} s after the agreed instant; here its end "
            f"was seen {lasted / 1e9:.3f} s after it",
        )

    def check_usage(self) -> None:
        """TrialFailedError where it used more than there is, as its instance says, at any length.

        No longer time counts than was seen from here.
        """
        done, process = self._ended()
        if done.usage is None:
            return
        seen_ns = done.arrived_ns - process.requested_ns
        elapsed = min(done.end_ns - done.start_ns, seen_ns) / 1e9
        spec = self.instance.spec
        # A guest's kernel counts time that its vCPU had to wait for the quota as used.
        quota = None if self.instance.own_kernel else spec.cpu_quota
        limit = quota or len(spec.cpu_ids)
        used = done.usage.user_s + done.usage.system_s
        if used > CPU_TOLERANCE * limit * elapsed + CPU_SLACK_S * len(spec.cpu_ids):
            raise TrialFailedError(
                "limit-not-held",
                f"{self.name} used {used:.3g} s of CPU time in {elapsed:.3g} s, where the limit is "
                f"{limit:g} CPUs",
            )
        memory = spec.memory_bytes if self.instance.own_kernel else memory_bytes()
        if done.usage.max_rss_bytes > memory:
            raise TrialFailedError(
                "limit-not-held",
                f"{self.name} had {done.usage.max_rss_bytes:.3g} bytes in memory, where there are "
                f"{memory:.3g}",
            )


def most_lag_ns(lasted_ns: int, programs: int) -> float:
    """So old may the news be that a program of so many has ended, so long after the start."""
    return max(LAG_NS, LAG_SHARE * lasted_ns) + programs * NEWS_NS


def _tail(process: Process) -> str:
    text = (process.stderr or process.stdout).decode("utf-8", "replace").strip()
    return printable(text[-500:], 500) or "it printed nothing"
