"""`ullage-front`: viewers wait, are redirected, go; nodes come and go."""

import json
import signal
from pathlib import Path

import pytest

from tests.experiments.elastic.frontkit import Answer, fronting, url
from ullage.host import claims, clock


def test_a_viewer_waits_for_a_node_and_the_last_to_go_releases_it(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        first = front.watch(1)
        order = front.order()
        assert order["allocate"] == 0
        second = front.watch(2)
        front.until('viewers{state="waiting"}', 2)
        front.ready(0)
        for viewer in (first, second):
            answer = viewer.answer()
            assert (answer.status, answer.headers["location"]) == (302, url(0))
        (node,) = front.state()["nodes"]
        assert node == {
            "node": 0,
            "state": "ready",
            "viewers": 2,
            "address": "10.0.0.1:80",
            "url": url(0),
        }
        assert front.finish(1).status == 204
        assert front.finish(2).status == 204
        assert front.order()["release"] == 0
        assert front.state()["nodes"][0]["state"] == "leaving"
        front.tell(released=0)
        front.until('nodes{state="leaving"}', 0)
        assert front.quit() == 0


def test_who_came_first_is_served_first_and_the_rest_when_there_is_room(tmp_path: Path) -> None:
    with fronting(tmp_path, config={"room": 1}) as front:
        viewers = []
        for client in range(3):
            viewers.append(front.watch(client))
            front.until('viewers{state="waiting"}', client + 1)
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert viewers[0].answer().headers["location"] == url(0)
        assert front.order()["allocate"] == 1
        assert front.finish(0).status == 204
        assert viewers[1].answer().headers["location"] == url(0)
        front.ready(1)
        assert viewers[2].answer().headers["location"] == url(1)
        assert front.metrics()["wait_seconds_count"] == 3


def test_patience_ends_with_a_word_and_the_connection_may_ask_again(tmp_path: Path) -> None:
    with fronting(tmp_path, patience_ms_max=50) as front:
        viewer = front.connect()
        for patience in ("?patience_ms=0", "?patience_ms=10", "", "?patience_ms=86400000"):
            viewer.get(f"/watch/7{patience}")
            answer = viewer.answer()
            assert (answer.status, answer.word) == (503, "blocked")
        front.until('viewers{state="waiting"}', 0)
        assert front.metrics()['turned_away_total{why="patience"}'] == 4
        front.order()
        front.ready(0)
        front.until('nodes{state="ready"}', 1)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_one_that_leaves_while_it_waits_is_not_waited_for(tmp_path: Path, how: str) -> None:
    with fronting(tmp_path, config={"room": 1}) as front:
        gone = front.watch(1)
        front.until('viewers{state="waiting"}', 1)
        stays = front.watch(2)
        front.until('viewers{state="waiting"}', 2)
        getattr(gone, how)()
        front.until('viewers{state="waiting"}', 1)
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert stays.answer().status == 302
        assert front.metrics()['viewers{state="served"}'] == 1


def test_one_that_asks_again_is_answered_where_it_asked_last(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        before = front.watch(5)
        front.until('viewers{state="waiting"}', 1)
        now = front.watch(5)
        assert before.answer().word == "elsewhere"
        front.order()
        front.ready(0)
        assert now.answer().status == 302
        assert front.metrics()['viewers{state="served"}'] == 1


def test_one_whose_node_died_asks_again(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        viewer = front.watch(1)
        front.order()
        front.ready(0)
        assert viewer.answer().status == 302
        front.tell(failed=0, why="it burns")
        front.until("lost_total", 1)
        assert front.finish(1).word == "unknown"
        viewer.get("/watch/1")
        assert front.order()["allocate"] == 1
        front.ready(1)
        assert viewer.answer().headers["location"] == url(1)
        assert {"failed": 0, "why": "it burns"} in [r.get("note") for r in front.records()]


def test_a_node_that_cannot_be_had_is_asked_for_again(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        viewer = front.watch(1)
        assert front.order()["allocate"] == 0
        front.tell(failed=0, why="no disk")
        assert front.order()["allocate"] == 1
        front.ready(1)
        assert viewer.answer().headers["location"] == url(1)


def test_no_room_at_all_and_a_full_waiting_room_are_told_apart(tmp_path: Path) -> None:
    def word(**config: int) -> list[str | None]:
        with fronting(tmp_path, config=config) as front:
            waiting = front.watch(1, 0 if "max_nodes" in config else 60_000)
            if "max_nodes" in config:
                return [waiting.answer().word]
            front.until('viewers{state="waiting"}', 1)
            return [front.watch(2).answer().word]

    assert word(room=1, max_nodes=0) == ["no-nodes"]
    (tmp_path / "front.jsonl").unlink()
    assert word(room=1, waiting_room=1) == ["full"]


def test_requests_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    with fronting(tmp_path, config={"room": 2, "min_nodes": 1}) as front:
        front.order()
        front.ready(0)
        front.until('nodes{state="ready"}', 1)
        viewer = front.connect()
        requests = ("GET /watch/1", "POST /finished/1", "GET /nothing")
        text = "".join(f"{line} HTTP/1.1\r\n\r\n" for line in requests)
        viewer.send(text + "GET /watch/2 HTTP/1.0\r\n\r\n")
        assert [viewer.answer().status for _ in range(4)] == [302, 204, 404, 302]
        assert viewer.ended()


def test_a_viewer_that_never_says_that_it_finished_does_not_keep_its_place(tmp_path: Path) -> None:
    with fronting(tmp_path, watch_ms_max=20) as front:
        viewer = front.watch(1)
        front.order()
        front.ready(0)
        assert viewer.answer().status == 302
        assert front.order()["release"] == 0
        assert front.metrics()["overstayed_total"] == 1


def test_its_time_is_the_controllers(tmp_path: Path) -> None:
    offer = {"boot_id": claims.boot_id(), "line": clock.line().hex()}
    before = clock.ordered_ns()
    with fronting(tmp_path, clock=offer) as front:
        assert front.start["clock"] == "shared"
        viewer = front.watch(1)
        order = front.order()
        heard = clock.ordered_ns()
        front.ready(0)
        answer: Answer = viewer.answer()
        after = clock.ordered_ns()
        assert answer.status == 302
        times = [record["at_ns"] for record in front.records()]
    assert before <= times[0] and times == sorted(times) and times[-1] <= after
    assert before <= order["at_ns"] <= heard


def test_an_offer_of_another_kernel_is_not_taken(tmp_path: Path) -> None:
    offer = {"boot_id": "4f3ff1c6-0000-4000-8000-000000000000", "line": clock.line().hex()}
    with fronting(tmp_path, clock=offer) as front:
        assert front.start["clock"] == "own"


@pytest.mark.parametrize("how", ["quit", "SIGTERM", "SIGINT"])
def test_told_to_end_it_tells_those_who_wait(tmp_path: Path, how: str) -> None:
    with fronting(tmp_path) as front:
        viewer = front.watch(1)
        front.until('viewers{state="waiting"}', 1)
        if how == "quit":
            front.tell(quit=True)
        else:
            front.process.send_signal(signal.Signals[how])
        answer = viewer.answer()
        assert (answer.status, answer.word) == (503, "ending")
        assert viewer.ended()
        assert front.process.wait(60) == 0
        assert json.loads(front.log.read_text().splitlines()[-1])["at_ns"] > 0
