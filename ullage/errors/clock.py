"""Errors of the clock."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

CLOCK_NOT_BUILT: Final = ErrorKind(
    "clock-not-built",
    "the clock's extension module cannot be loaded: {reason}",
    "`make build` builds it, for this machine and this Python",
)
CLOCK_NOT_MEASURED: Final = ErrorKind(
    "clock-not-measured",
    "{what} could not be measured: {reason}",
    "{suggestion}",
    ExitCode.GATE_FAILED,
)
CLOCK_NO_TOKEN: Final = ErrorKind(
    "clock-no-token",
    "there is no run token: {reason}",
    "let `ullage clock serve --token-file FILE` write one, copy the file to the other machine and"
    " name it with --token-file there too; or put the token into $ULLAGE_CLOCK_TOKEN",
)
CLOCK_BAD_TOKEN: Final = ErrorKind(
    "clock-bad-token",
    "{where} holds no run token: that is 32 hexadecimal digits",
    "`openssl rand -hex 16` makes one",
)
CLOCK_TOKEN_EXPOSED: Final = ErrorKind(
    "clock-token-exposed",
    "other users may read or change the run token in {file}",
    "`chmod 600 {typed}`; if somebody may have read it, let `ullage clock serve` write a new one",
)
CLOCK_BAD_DISTORTION: Final = ErrorKind(
    "clock-bad-distortion",
    "{variable} is no distortion of a clock: {found}",
    "write PPB or PPB,NS in whole numbers, PPB from -1000000 to 1000000; or unset it",
)
CLOCK_STOPPED_ANSWERING: Final = ErrorKind(
    "clock-stopped-answering",
    "{address} stopped answering after {count}: {reason}",
    "what was measured until then is above; see whether the server still runs, and the network",
    ExitCode.GATE_FAILED,
)
CLOCK_BAD_ADDRESS: Final = ErrorKind(
    "clock-bad-address",
    "{found} is no address: {reason}",
    "write HOST, HOST:PORT or [IPV6]:PORT, such as 127.0.0.1:{port}",
)
CLOCK_CANNOT_SERVE: Final = ErrorKind(
    "clock-cannot-serve",
    "cannot serve the clock at {address}: {reason}",
    "take another port, or an address that this machine has; port 0 is any that is free",
    ExitCode.GATE_FAILED,
)
CLOCK_REFUSED: Final = ErrorKind(
    "clock-refused",
    "nobody serves a clock at {address}: the connection was refused",
    "start `ullage clock serve` there, or check the port; give --tcp on both sides, or on neither",
    ExitCode.GATE_FAILED,
)
CLOCK_NO_ANSWER: Final = ErrorKind(
    "clock-no-answer",
    "nobody at {address} answered within {seconds:.1f} s",
    "a server is silent towards a client with another token: compare the two; else see whether the"
    " server still runs, and whether a packet filter drops {protocol} to its port",
    ExitCode.GATE_FAILED,
)
CLOCK_NTP_FAILED: Final = ErrorKind(
    "clock-ntp-failed",
    "the NTP experiment: {what}: {reason}",
    "try again on a quieter host, or watch for longer; `ullage clean` removes what was left",
    ExitCode.SOME_CELLS_FAILED,
)
CLOCK_CONTRADICTION: Final = ErrorKind(
    "clock-contradiction",
    "what {address} answers cannot be: {reason}",
    "one of the two machines was suspended, moved or has a broken clock, or two servers answer"
    " there; `ullage clock check` on both tells more",
    ExitCode.GATE_FAILED,
)
CLOCK_TURNED_AWAY: Final = ErrorKind(
    "clock-turned-away",
    "{address} closed the connection",
    "a server turns away a client with another token: compare the two; else see whether the server"
    " still runs",
    ExitCode.GATE_FAILED,
)
CLOCK_UNREACHABLE: Final = ErrorKind(
    "clock-unreachable",
    "cannot reach {address}: {reason}",
    "check the address and the network between the two",
    ExitCode.GATE_FAILED,
)
