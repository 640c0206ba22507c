"""A real chronyd that polls another one on this host, both our own: sockets, ports, files.

Both run with `-x`: they exchange packets and filter them as always, but leave the system clock
alone. Client and server read the same clock here, so there is nothing to correct, and the clock
belongs to everybody else on this host too.
"""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ullage.common.commands import needed
from ullage.common.text import printable

DEADLINE_S = 30.0
"""Until the client follows its server, besides what it waits between the polls."""
ANSWER_S = 10.0
POLLS = 4
"""It chooses a server after three answers: two polls, and as many again to be sure."""
SERVER = """\
local stratum 1
allow 127.0.0.1
port {port}
bindaddress 127.0.0.1
cmdport 0
bindcmdaddress {home}/server.sock
pidfile {home}/server.pid
"""
CLIENT = """\
server 127.0.0.1 port {port} minpoll {poll} maxpoll {poll}
port 0
cmdport 0
bindcmdaddress {home}/client.sock
pidfile {home}/client.pid
"""


class ChronydError(RuntimeError):
    """A daemon did not start, never chose its server, or no longer says what it does."""


class Chronyd:
    """Server and client while the context lasts; entered once the client follows the server."""

    def __init__(self, poll: int = 0) -> None:
        """`poll`: base-2 logarithm of the seconds between two exchanges."""
        self._poll = poll
        self._chronyd = needed("chronyd", "chrony")
        self._chronyc = needed("chronyc", "chrony")
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Chronyd:
        self._home = Path(tempfile.mkdtemp(prefix="ullage-chrony-"))
        try:
            port = _free_port()
            self._start("server", SERVER.format(port=port, home=self._home))
            self._start("client", CLIENT.format(port=port, home=self._home, poll=self._poll))
            self._await_source()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def exchanges(self) -> int:
        """Answers of the server that the client found good, so far."""
        answer = self._ask("ntpdata")
        count = answer.rstrip().rpartition(",")[2]
        if not (count.isascii() and count.isdigit()):
            raise ChronydError(f"chronyc ntpdata: unreadable: {printable(answer, 200)}")
        return int(count)

    def _start(self, name: str, config: str) -> None:
        path = self._home / f"{name}.conf"
        path.write_text(config)
        # Even when we are killed it ends.
        argv = ["setpriv", "--pdeathsig", "TERM", self._chronyd, "-d", "-x", "-U"]
        argv += ["-u", getpass.getuser(), "-f", str(path)]
        with (self._home / f"{name}.log").open("wb") as log:
            self._daemons.append(subprocess.Popen(argv, stdout=log, stderr=log))

    def _await_source(self) -> None:
        patience_s = DEADLINE_S + POLLS * 2.0**self._poll
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if any(daemon.poll() is not None for daemon in self._daemons):
                raise ChronydError(f"chronyd ended: {self._logs()}")
            # Its socket may be there before it answers.
            with suppress(ChronydError):
                if (self._home / "client.sock").exists() and "^,*," in self._ask("sources"):
                    return
            time.sleep(0.1)
        raise ChronydError(f"chronyd chose no source in {patience_s} s: {self._logs()}")

    def _ask(self, command: str) -> str:
        argv = [self._chronyc, "-c", "-h", str(self._home / "client.sock"), command]
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=ANSWER_S,
            )
        except subprocess.TimeoutExpired as error:
            raise ChronydError(f"chronyc {command}: no answer within {ANSWER_S} s") from error
        if done.returncode != 0:
            why = printable(done.stdout + done.stderr, 200)
            raise ChronydError(f"chronyc {command} ended with {done.returncode}: {why}")
        return done.stdout

    def _logs(self) -> str:
        return " / ".join(path.read_text().strip()[-300:] for path in self._home.glob("*.log"))

    def _stop(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self._home, ignore_errors=True)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
