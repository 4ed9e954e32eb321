"""The review page's address is the only way in."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from PIL import Image

from orchestrator import reading
from orchestrator.report.view import RunView
from orchestrator.review.desk import Desk
from orchestrator.review.server import MAX_BODY_BYTES, Server
from orchestrator.store.rundir import RunDir

SUBJECT = "ledger:time.one"
START_DEADLINE_S = 10.0


@pytest.fixture
def server(view: RunView, before: RunDir) -> Iterator[Server]:
    """The review of a run, served by uvicorn on a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        server = Server(Desk(view, reading.view(before)), (host,), token="secret")
        config = uvicorn.Config(server.app(), log_level="warning")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        yield server
        running.should_exit = True
        thread.join(START_DEADLINE_S)
        assert not thread.is_alive()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    origin = f"http://{server.hosts[0]}"
    with httpx.Client(base_url=origin, headers={"origin": origin}, timeout=10) as found:
        yield found


def test_the_page_opens_under_its_token_only(client: httpx.Client) -> None:
    assert client.get("/secret/").status_code == 200
    for wrong in ("/", "/secre/", "/secret2/", "/%00/", "/sécret/"):
        assert client.get(wrong).status_code == 404


def test_another_name_for_the_loopback_is_refused(client: httpx.Client) -> None:
    assert client.get("/secret/", headers={"host": "evil.example:4711"}).status_code == 403
    assert client.get("/secret/", headers={"host": "127.0.0.1:1"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ""},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1"},
        {"origin": "http://127.0.0.1"},
        {"content-type": "text/plain"},
    ],
)
def test_a_foreign_page_cannot_decide(
    client: httpx.Client, server: Server, headers: dict[str, str]
) -> None:
    body = json.dumps({"subject": SUBJECT, "verdict": "rejected"})
    told = {"content-type": "application/json", **headers}
    assert client.post("/secret/decide", content=body, headers=told).status_code == 403
    assert server.desk.decided(server.desk.subjects[SUBJECT]) is None


def test_a_body_without_end_is_refused(client: httpx.Client) -> None:
    long = {"subject": "x" * MAX_BODY_BYTES, "verdict": "rejected"}
    assert client.post("/secret/decide", json=long).status_code == 403


def test_decisions_go_through(client: httpx.Client, server: Server) -> None:
    short = {"subject": SUBJECT, "verdict": "accepted", "reason": "ok"}
    refused = client.post("/secret/decide", json=short)
    assert refused.status_code == 422
    assert "reason" in refused.json()["error"]
    full = {**short, "reason": "the tails cost three microseconds"}
    told = client.post("/secret/decide", json=full)
    known = told.json()["known"]
    assert told.json() == {"verdict": "accepted", "open": 2, "known": known, "others": []}
    back = {"subject": SUBJECT, "known": known}
    assert client.post("/secret/undo", json=back).json() == {"open": 3}
    done = client.post("/secret/finish", json={})
    assert done.json()["open"] == 3
    assert server.finished is not None


def test_one_answer_for_all_that_are_alike(client: httpx.Client, server: Server) -> None:
    both = {"subject": SUBJECT, "verdict": "rejected", "reason": "too slow", "others": "yes"}

    told = client.post("/secret/decide", json=both).json()

    (other,) = told["others"]
    assert other["subject"] == "ledger:time.two"
    assert told["open"] == 1
    kept = server.desk.decided(server.desk.subjects["ledger:time.two"])
    assert kept is not None
    assert (kept.verdict, kept.reason, kept.mark) == ("rejected", "too slow", other["known"])


def test_a_page_that_knew_of_no_decision_cannot_replace_one(
    client: httpx.Client, server: Server
) -> None:
    first = {"subject": SUBJECT, "verdict": "rejected", "reason": "too slow", "known": ""}
    made = client.post("/secret/decide", json=first).json()
    late = {**first, "verdict": "accepted", "reason": "the tails cost three microseconds"}

    refused = [client.post("/secret/decide", json=late), client.post("/secret/undo", json=late)]

    for answer in refused:
        assert answer.status_code == 409
        told = answer.json()
        assert "decided elsewhere meanwhile (rejected: too slow)" in told["error"]
        assert (told["verdict"], told["known"], told["open"]) == ("rejected", made["known"], 2)
    kept = server.desk.decided(server.desk.subjects[SUBJECT])
    assert kept is not None
    assert kept.verdict == "rejected"
    again = client.post("/secret/decide", json={**late, "known": made["known"]})
    assert again.json()["verdict"] == "accepted"


def test_every_answer_forbids_what_it_does_not_need(client: httpx.Client) -> None:
    for path in ("/secret/", "/secret/static/review.js", "/secret/file/b0", "/wrong/"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_only_the_evidence_is_served(client: httpx.Client, server: Server) -> None:
    for key in ("../../run.json", "%2e%2e%2frun.json", "b99999", "", "c0"):
        assert client.get(f"/secret/file/{key}").status_code == 404
    image = next(k for k, f in server.desk.files.items() if f.path.endswith(".png"))
    assert client.get(f"/secret/file/{image}").headers["content-type"] == "image/png"
    other = next(k for k, f in server.desk.files.items() if f.path.endswith(".json"))
    served = client.get(f"/secret/file/{other}").headers
    assert served["content-type"] == "application/octet-stream"
    assert served["content-disposition"].startswith("attachment")


def test_a_link_in_the_evidence_is_not_followed(view: RunView, tmp_path: Path) -> None:
    member = next(m for m in view.members if m.path.endswith(".png"))
    place = view.folder.evidence / member.path
    (tmp_path / "private").write_text("secret", "utf-8")
    place.unlink()
    place.symlink_to(tmp_path / "private")
    assert member.path not in {file.path for file in Desk(view).files.values()}


def test_logs_come_in_windows(client: httpx.Client, server: Server) -> None:
    key = next(k for k, f in server.desk.files.items() if f.path.endswith("/log"))
    told = client.get(f"/secret/log/{key}?first=2999&count=10").json()
    assert told["total"] == 3000
    assert [line["number"] for line in told["lines"]] == [2999, 3000]
    hits = client.get(f"/secret/log/{key}/search?words=LINE 2998 ").json()
    assert [line["number"] for line in hits["lines"]] == [2999]
    assert client.get(f"/secret/log/{key}?first=-1&count=1e9").status_code == 200
    image = next(k for k, f in server.desk.files.items() if f.path.endswith(".png"))
    assert client.get(f"/secret/log/{image}").status_code == 422


def test_changed_pixels_are_drawn_of_two_images_only(client: httpx.Client, server: Server) -> None:
    def key(side: str, ending: str) -> str:
        files = server.desk.files.items()
        return next(k for k, f in files if f.side == side and f.path.endswith(ending))

    a, b = key("a", "plot1.png"), key("b", "plot1.png")
    drawn = client.get(f"/secret/overlay/{a}/{b}")
    assert drawn.headers["content-type"] == "image/png"
    picture = Image.open(io.BytesIO(drawn.content))
    assert picture.size == (48, 48)
    colours = {picture.getpixel((x, 24)) for x in range(48)}
    assert any(red > 100 and green == 0 for red, green, _ in colours)

    refused = client.get(f"/secret/overlay/{a}/{key('b', '/log')}")
    assert refused.status_code == 422
    assert "no overlay" in refused.json()["error"]
    assert client.get(f"/secret/overlay/{a}/b99999").status_code == 422
