"""What the web tools really printed, recorded from runs, and ways to bend it."""

from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from ullage.runs.events import Usage
from ullage.workloads.base import Output

DATA = Path(__file__).parent / "data"


def output(text: str, status: int = 0) -> Output:
    usage = Usage(user_s=0.5, system_s=0.5, max_rss_bytes=1 << 20)
    return Output(status, None, text, "", 2.0, usage)


def sample(tool: str, name: str, server: str | None = None) -> dict[str, Output]:
    """The outputs of a run; where a fault left none of its own, the server's of another run."""
    folder = DATA / tool
    return {
        "client": output((folder / f"{name}.client.txt").read_text()),
        "server": output((folder / f"{server or name}.server.txt").read_text()),
    }


def printing(outputs: dict[str, Output], role: str, text: str) -> dict[str, Output]:
    return {**outputs, role: replace(outputs[role], stdout=text)}


def bent(text: str) -> st.SearchStrategy[str]:
    """The text with a piece cut out, doubled, or put in from elsewhere."""
    at = st.integers(0, len(text))
    pieces = st.one_of(
        st.sampled_from(
            ["-", "nan", "inf", "1e999", "0", "9" * 40, "null", ",", "\n", "\x00", "{}"]
        ),
        st.text(max_size=5),
        st.just("..."),
    )
    return st.builds(
        lambda at, length, piece: text[:at] + piece + text[at + length :],
        at,
        st.integers(0, 12),
        pieces,
    )
