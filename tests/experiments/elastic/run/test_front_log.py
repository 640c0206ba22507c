"""`ullage-front` and its log: it says nothing that is not in it, and killed, it goes on from it."""

import json
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.elastic.frontkit import PATIENCE_S, Front, fronting, refused, settings, url


def actions(front: Front, name: str) -> list[dict[str, Any]]:
    """Those in the log."""
    return [record for record in front.records() if record.get("action") == name]


def limit(front: Front, size: int) -> None:
    """No file of its may grow beyond that: its disk is full."""
    resource.prlimit(front.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_what_a_viewer_was_told_is_in_the_log(tmp_path: Path) -> None:
    with fronting(tmp_path, config={"room": 20}, log_sync="each_batch") as front:
        viewers = {client: front.watch(client) for client in range(20)}
        front.until('viewers{state="waiting"}', 20)
        assert front.order()["allocate"] == 0
        assert len(actions(front, "allocate")) == 1
        front.ready(0)
        for client, viewer in viewers.items():
            assert viewer.answer().status == 302
            entry = {"action": "redirect", "client": client, "node": 0}
            assert any(entry.items() <= record.items() for record in front.records())
            assert front.finish(client).status == 204
            report = {"event": "finished", "client": client}
            assert any(report.items() <= record.items() for record in front.records())


def test_a_killed_front_goes_on_and_so_do_its_viewers(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        served = front.watch(1)
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert served.answer().status == 302
        waiting = {}
        for client in (2, 3, 4):  # one has room, two wait for the next node
            waiting[client] = front.watch(client)
            front.until("requests_total", client)
        assert waiting.pop(2).answer().headers["location"] == url(0)
        assert front.order()["allocate"] == 1
        front.kill()
        assert waiting[3].ended()
        log = front.log.read_text()
        listening = front.start["listening"]
    with fronting(tmp_path, listen=listening, rejoin_ms=600_000) as again:
        resumed = again.start["resumed"]
        assert (resumed["served"], resumed["waiting"], resumed["nodes"]) == (2, 2, 2)
        assert resumed["cut_bytes"] == 0
        assert again.order()["allocate"] == 1  # it is still to come
        again.ready(0)  # the controller is not sure that this was heard: no harm
        four = again.watch(4)
        three = again.watch(3)
        again.until("requests_total", 2)
        again.ready(1)
        assert three.answer().headers["location"] == url(1)
        assert four.answer().headers["location"] == url(1)
        assert again.finish(1).status == 204
        assert again.finish(2).status == 204
        assert again.order()["release"] == 0
        assert again.log.read_text().startswith(log)
        assert again.lines.empty()


def test_who_does_not_come_back_is_not_waited_for(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        front.watch(1)
        front.until('viewers{state="waiting"}', 1)
        front.kill()
    with fronting(tmp_path, rejoin_ms=20) as again:
        assert again.start["resumed"]["waiting"] == 1
        again.until('viewers{state="waiting"}', 0)
        assert again.metrics()['turned_away_total{why="patience"}'] == 1


def test_who_does_not_come_back_keeps_no_place_at_a_node(tmp_path: Path) -> None:
    """A node that is ready before those who waited have asked again has room for them so long."""
    with fronting(tmp_path) as front:
        for client in (1, 2):
            front.watch(client)
        front.until('viewers{state="waiting"}', 2)
        assert front.order()["allocate"] == 0
        front.kill()
    with fronting(tmp_path, rejoin_ms=3_000) as again:
        assert again.order()["allocate"] == 0
        again.ready(0)
        again.until('viewers{state="served"}', 2)
        assert again.watch(2).answer().headers["location"] == url(0)
        again.until('viewers{state="served"}', 1)
        assert again.finish(2).status == 204
        assert again.order()["release"] == 0


def test_a_line_that_was_cut_is_cut_off_and_said(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        front.watch(1)
        assert front.order()["allocate"] == 0
        front.kill()
        whole = front.log.read_text()
    front.log.write_text(whole + '{"at_ns":12,"eve')
    with fronting(tmp_path) as again:
        assert again.start["resumed"]["cut_bytes"] == 16
        assert "16 bytes are cut off" in again.last_words()
        assert again.order()["allocate"] == 0
        assert again.log.read_text().startswith(whole)
        assert all("at_ns" in record for record in again.records())


def test_an_event_whose_actions_were_cut_is_done_to_its_end(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        front.watch(1)
        assert front.order()["allocate"] == 0
        front.kill()
    lines = front.log.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"allocate"' in line)
    front.log.write_text("".join(lines[:place]))
    with fronting(tmp_path) as again:
        assert again.order()["allocate"] == 0
        assert len(actions(again, "allocate")) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: "nonsense\n" + log, "line 1"),
        (lambda log: log + '{"at_ns":1,"event":"finished","client":9}\n', "line 4"),
        (lambda log: log.replace('"room":2', '"room":3'), "another configuration"),
        (lambda log: log.replace('"at_ns":', '"at_ns":9'), "s from now"),
        (
            lambda log: log.replace('"at_ns":', '"at_ns":9') + '{"at_ns":7,"note":{}}\n',
            "line 4: time goes back",
        ),
    ],
)
def test_a_log_that_is_none_or_anothers_is_not_gone_on_from(
    tmp_path: Path, change: Any, message: str
) -> None:
    with fronting(tmp_path) as front:
        assert front.quit() == 0
        before = front.log.read_text()
    lines = before.splitlines(keepends=True)
    assert len(lines) == 2
    text = change(before + lines[1])
    front.log.write_text(text)
    status, words = refused(tmp_path, settings(tmp_path))
    assert status == 2 and message in words, words
    assert front.log.read_text() == text


def test_two_fronts_do_not_write_one_log(tmp_path: Path) -> None:
    with fronting(tmp_path):
        status, words = refused(tmp_path, settings(tmp_path))
        assert status == 2 and "another front writes this log" in words


def test_where_the_log_cannot_be_nothing_starts(tmp_path: Path) -> None:
    status, words = refused(tmp_path, settings(tmp_path / "nowhere"), cwd=tmp_path)
    assert status == 1 and "nowhere/front.jsonl" in words


def test_on_a_full_disk_nothing_is_decided_until_it_has_room(tmp_path: Path) -> None:
    # Python has this signal ignored, and the front inherits that.
    with fronting(tmp_path, {"restore_signals": False}) as front:
        assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
        served = front.watch(1)
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert served.answer().status == 302
        size = front.log.stat().st_size
        limit(front, size + 30)  # part of a line still fits
        waiting = front.watch(2)
        front.until("log_stuck", 1)
        assert front.watch(3).answer().word == "unlogged"
        assert front.finish(1).word == "unlogged"
        front.tell(failed=0, why="not heard until there is room")
        assert front.metrics()['viewers{state="served"}'] == 2
        assert front.metrics()['refused_total{why="unlogged"}'] == 2
        assert front.log.stat().st_size == size + 30
        assert "nothing is decided" in front.last_words()
        waiting.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.socket.recv(1)
        waiting.socket.settimeout(PATIENCE_S)
        limit(front, resource.RLIM_INFINITY)
        assert waiting.answer().status == 302
        front.until("log_stuck", 0)
        front.until("lost_total", 2)
        assert "can be written again" in front.last_words()
        assert front.finish(1).word == "unknown"
        assert front.quit() == 0
    with fronting(tmp_path) as again:
        assert again.start["resumed"]["cut_bytes"] == 0


def test_a_disk_that_stays_full_is_an_error_at_the_end(tmp_path: Path) -> None:
    with fronting(tmp_path, {"restore_signals": False}) as front:
        limit(front, front.log.stat().st_size)
        waiting = front.watch(1)
        front.until("log_stuck", 1)
        front.process.send_signal(signal.SIGTERM)
        assert front.process.wait(PATIENCE_S) == 1
        assert waiting.answer().word == "ending"
        assert "the log" in front.last_words()


def test_the_log_is_whole_lines_of_json_with_times_in_order(tmp_path: Path) -> None:
    with fronting(tmp_path, config={"room": 1}) as front:
        for client in range(3):
            front.watch(client)
        front.until('viewers{state="waiting"}', 3)
        front.kill()
    lines = front.log.read_text().splitlines()
    times = [json.loads(line)["at_ns"] for line in lines]
    assert times == sorted(times)
    assert json.loads(lines[0])["config"]["room"] == 1
