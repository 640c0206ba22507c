"""What machines say of their viewers, put together: on one clock, and not believed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ullage.environments.agent.client import ProgramEnd
from ullage.environments.agent.clock import ClockMap, Look
from ullage.experiments.elastic.run.merging import Came, Merged, NotToBelieveError, merged
from ullage.host import clock
from ullage.runs.events import Usage

ZERO = 10_000_000_000
SECOND = 1_000_000_000
FILM = 1_000
"""Bytes that a viewer can get."""
APART = 7_000_000_000
"""What the second machine's clock is ahead."""
HALF = 40_000


def look(ahead_ns: int, *, shared: bool = False) -> Look:
    half = 0 if shared else HALF
    fix = clock.Fix(
        local_ns=ZERO,
        offset_ns=ahead_ns,
        half_ns=half,
        sure_ns=half,
        noise_ns=half,
        rtt_ns=2 * half,
    )
    return Look(1, "connect", shared, fix, 2, 0, ())


def finished(**fields: Any) -> ProgramEnd:
    usage = Usage(
        user_s=0.1,
        system_s=0.1,
        max_rss_bytes=1,
        minor_faults=0,
        major_faults=0,
        voluntary_switches=0,
        involuntary_switches=0,
    )
    done = ProgramEnd(
        status=0,
        signal=None,
        timed_out=False,
        start_ns=ZERO - SECOND,
        end_ns=ZERO + 9 * SECOND,
        held_ns=0,
        late_ns=5,
        start_local_ns=0,
        end_local_ns=0,
        clock_bound_ns=0,
        clock_sure_ns=0,
        reasons=(),
        arrived_ns=ZERO + 9 * SECOND,
        usage=usage,
    )
    return replace(done, **fields)


def summary(ahead_ns: int, viewers: int, fields: dict[str, Any]) -> dict[str, Any]:
    numbers = (
        *("shards", "bytes", "requests", "behind", "reopened", "asked_again", "untold"),
        *("most_at_once", "most_playing", "cpu_s", "cpu_share", "lateness_limit_s"),
    )
    return {
        **dict.fromkeys(numbers, 1),
        "valid": True,
        "why": [],
        "started_ns": ZERO + ahead_ns,
        "ended_ns": ZERO + ahead_ns + 8 * SECOND,
        "due": viewers,
        "outcomes": {"served": viewers, "blocked": 0},
        "whys": {},
        "violations": {"count": 1, "viewers": 1, "served": 1, "length_s": {}},
        "lateness_s": {"count": 7, "p50": 0.001, "p99": 0.01 + ahead_ns / 1e12},
        "turn_s": {"p99": 0.002},
        "interrupted": False,
        "rate_error": 0.001,
        "rate_error_of_viewers": {"count": viewers, "p99": 0.004},
        "delivered_error": None,
        "delivered_error_of_viewers": {"count": 0},
        "memory": {"peak_bytes": 1000, "per_viewer_bytes": 10.0},
        "strange": "not ours",
    } | fields


def session(client: int, ahead_ns: int, **fields: Any) -> dict[str, Any]:
    due = ZERO + ahead_ns + client * SECOND
    return {
        "client": client,
        "due_ns": due,
        "asked_ns": due + 10,
        "answered_ns": due + 20,
        "node": "10.0.0.5:80",
        "first_byte_ns": due + 30,
        "ended_ns": due + SECOND,
        "outcome": "served",
        "why": None,
        "bytes": 5,
        "violations": [{"at_ns": due + 40, "length_ns": 7}],
        **fields,
    }


def lines(*sessions: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in sessions)


def came(name: str, ahead_ns: int, *clients: int, **fields: Any) -> Came:
    """A machine whose clock is so much ahead, with these viewers; `fields` are its summary's."""
    summary_text = json.dumps(summary(ahead_ns, len(clients), fields)).encode()
    records = lines(*(session(client, ahead_ns) for client in clients))
    ours = ClockMap(look(ahead_ns, shared=ahead_ns == 0))
    return Came(name, ours, finished(), summary_text, records)


def two() -> list[Came]:
    return [came("one", 0, 0, 2), came("other", APART, 1)]


def sessions_of(record: Merged) -> dict[int, dict[str, Any]]:
    read = [json.loads(line) for line in record.sessions.splitlines()]
    return {session_record["client"]: session_record for session_record in read}


def test_all_are_on_one_clock() -> None:
    together = merged(two(), ZERO, FILM)
    sessions = sessions_of(together)
    assert sorted(sessions) == [0, 1, 2]
    assert sessions[0] == session(0, 0)  # a shared clock moves nothing
    for name, ns in sessions[1].items():
        if name.endswith("_ns"):
            assert abs(ns - session(1, 0)[name]) <= together.clock_bound_ns
    (violation,) = sessions[1]["violations"]
    assert abs(violation["at_ns"] - (ZERO + SECOND + 40)) <= together.clock_bound_ns
    assert violation["length_ns"] == 7
    assert together.clock_bound_ns >= HALF
    assert "started within 0 ns; 1 of 2 clocks are the run's own" in together.note


def test_counts_are_summed_and_the_worst_lateness_stands() -> None:
    summed = merged(two(), ZERO, FILM).summary
    assert (summed["due"], summed["outcomes"], summed["valid"]) == (
        3,
        {"served": 3, "blocked": 0},
        True,
    )
    violations = summed["violations"]
    assert (violations["count"], violations["viewers"], violations["served"]) == (2, 2, 2)
    assert summed["lateness_s"] == {"count": 14, "p50": 0.001, "p99": 0.01 + APART / 1e12}
    assert summed["started_ns"] == ZERO
    first, second = summed["generators"]
    assert (first["zero_off_ns"], first["clock_bound_ns"]) == (0, 0)
    assert abs(second["zero_off_ns"]) <= second["clock_bound_ns"]


def test_one_that_is_not_valid_makes_all_invalid_and_says_why() -> None:
    late = came("other", APART, 1, valid=False, why=["it was \x1b[31mlate"])
    summed = merged([came("one", 0, 0, 2), late], ZERO, FILM).summary
    assert summed["valid"] is False
    (why,) = summed["why"]
    assert why.startswith("other: it was ") and "\x1b" not in why


def refused(*answers: Came) -> NotToBelieveError:
    with pytest.raises(NotToBelieveError) as caught:
        merged(answers, ZERO, FILM)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"due": -1}, "due"),
        ({"due": 5}, "of 5 viewers who were due 1 have a record"),
        ({"valid": True, "why": ["late"]}, "both"),
        ({"valid": False}, "both"),
        ({"lateness_s": {"p99": float("nan")}}, "lateness_s"),
        ({"outcomes": {"\x1b[31m": 1}}, "outcomes"),
        ({"started_ns": ZERO}, "an instant"),
        ({"started_ns": ZERO + APART + SECOND}, "its schedule began +1.000"),
        ({"ended_ns": ZERO + APART + 60 * SECOND}, "an instant"),
        ({"ended_ns": 1 << 63}, "ended_ns"),
    ],
)
def test_a_summary_that_cannot_be_is_refused(fields: dict[str, Any], reason: str) -> None:
    error = refused(came("one", 0, 0, 2), came("other", APART, 1, **fields))
    assert error.name == "other"
    assert reason in error.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"client": 2}, "viewer 2 is not one of its own"),
        ({"due_ns": ZERO}, "an instant"),
        ({"ended_ns": ZERO + APART + 60 * SECOND}, "an instant"),
        ({"violations": [{"at_ns": 0, "length_ns": 1}]}, "an instant"),
        ({"violations": [{"at_ns": ZERO + APART, "length_ns": 3 * SECOND}]}, "outlasts"),
        ({"due_ns": ZERO + APART + SECOND + 11}, "before it was due"),
        ({"asked_ns": ZERO + APART + 2 * SECOND}, "not in order"),
        ({"first_byte_ns": None}, "no first byte"),
        ({"outcome": "delighted"}, "outcome"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": FILM + 1}, "its viewer got 1,001 bytes of a film, of which 1,000 can come"),
        ({"first_byte_ns": None, "outcome": "blocked"}, "got bytes, and never the first"),
    ],
)
def test_a_record_that_cannot_be_is_refused(change: dict[str, Any], reason: str) -> None:
    other = replace(came("other", APART, 1), sessions=lines(session(1, APART) | change))
    error = refused(came("one", 0, 0, 2), other)
    assert reason in error.reason


def test_the_whole_film_is_believed() -> None:
    other = replace(came("other", APART, 1), sessions=lines(session(1, APART, bytes=FILM)))
    together = merged([came("one", 0, 0, 2), other], ZERO, FILM)
    assert sessions_of(together)[1]["bytes"] == FILM


def test_records_that_are_cut_or_twice_are_refused() -> None:
    other = came("other", APART, 1)
    assert (
        "cut off" in refused(came("one", 0, 0), replace(other, sessions=other.sessions[:-1])).reason
    )
    twice = replace(other, sessions=2 * other.sessions)
    assert "twice" in refused(came("one", 0, 0), twice).reason


def test_shares_of_different_schedules_are_refused() -> None:
    """A machine that tells of fewer viewers than were due tells of fewer who were due, too."""
    error = refused(came("one", 0, 0, 2), came("other", APART))
    assert "of 2 viewers who were due from all machines 2 came from it" in error.reason
    error = refused(came("one", 0, 0), came("other", APART, 1, 3))
    assert "whose share is 2: it or another tells of too few" in error.reason
    skipping = refused(came("one", 0, 0, 4), came("other", APART, 1))
    assert "viewer 4" in skipping.reason


def test_the_note_tells_no_lateness_of_a_machine_that_had_nobody() -> None:
    nobody = came("other", APART, lateness_s={"count": 0}, turn_s={"count": 0})
    note = merged([came("one", 0, 0), nobody], ZERO, FILM).note
    assert note.endswith("of each that sent anything one send in a hundred was later than 10 ms")
    alone = replace(nobody, clock=ClockMap(look(APART)))
    assert "later than" not in merged([alone], ZERO, FILM).note


def test_long_times_are_told_as_people_write_them() -> None:
    late = replace(came("other", APART, 1), finished=finished(start_ns=ZERO - SECOND + 123_456_789))
    assert "started within 123 ms" in merged([came("one", 0, 0, 2), late], ZERO, FILM).note


def test_what_a_machine_calls_a_node_is_made_harmless() -> None:
    strange = session(0, 0, node="\x1b[31m" + 100 * "n", why="\x07")
    first = replace(came("one", 0, 0), sessions=lines(strange))
    (session_of,) = sessions_of(merged([first], ZERO, FILM)).values()
    assert session_of["node"].isprintable() and len(session_of["node"]) < 100
    assert session_of["why"].isprintable()


def test_every_field_is_put_together() -> None:
    """What is told without what it was made of is the worst machine's, with its sign."""
    first = came(
        *("one", 0, 0, 2),
        most_at_once=3,
        rate_error=0.001,
        rate_error_of_viewers={"count": 2, "p99": 0.002},
        delivered_error=None,
        memory={"peak_bytes": 1000, "per_viewer_bytes": 10.0},
    )
    other = came(
        *("other", APART, 1),
        most_at_once=1,
        rate_error=-0.003,
        rate_error_of_viewers={"count": 1, "p99": 0.001},
        delivered_error=0.01,
        memory={"peak_bytes": 500, "per_viewer_bytes": 50.0},
        interrupted=True,
    )
    summed = merged([first, other], ZERO, FILM).summary
    assert summed["rate_error"] == -0.003
    assert summed["rate_error_of_viewers"] == {"count": 3, "p99": 0.002}
    assert summed["delivered_error"] == 0.01
    assert summed["memory"] == {"peak_bytes": 1500, "per_viewer_bytes": (3 * 10 + 50) / 4}
    assert summed["interrupted"] is True
    assert [machine["rate_error"] for machine in summed["generators"]] == [0.001, -0.003]


def test_lengths_of_violations_are_those_of_all_records() -> None:
    def watched(client: int, ahead_ns: int, *lengths: int) -> dict[str, Any]:
        asked_ns = session(client, ahead_ns)["asked_ns"]
        violations = [{"at_ns": asked_ns + 30, "length_ns": length} for length in lengths]
        return session(client, ahead_ns, violations=violations)

    first = replace(came("one", 0, 0, 2), sessions=lines(watched(0, 0, 400), watched(2, 0)))
    other = replace(came("other", APART, 1), sessions=lines(watched(1, APART, 100, 200, 300)))
    lengths = merged([first, other], ZERO, FILM).summary["violations"]["length_s"]
    high = pytest.approx(4e-7)
    assert lengths == {
        **{"count": 4, "p50": pytest.approx(2e-7)},
        **{"p90": high, "p99": high, "p99.9": high, "max": high},
    }
    none = merged([came("one", 0, 0)], ZERO, FILM).summary["violations"]["length_s"]
    assert none["count"] == 1


def test_nobody_has_what_nobody_tells() -> None:
    quiet = {"rate_error": None, "memory": {"peak_bytes": 1, "per_viewer_bytes": None}}
    summed = merged([came("one", 0, 0, **quiet)], ZERO, FILM).summary
    assert summed["rate_error"] is None
    assert summed["memory"] == {"peak_bytes": 1, "per_viewer_bytes": None}
