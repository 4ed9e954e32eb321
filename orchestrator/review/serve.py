"""Serving a review until it is finished or Ctrl-C is pressed."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable

import uvicorn

from orchestrator.errors import InputError
from orchestrator.review.desk import Desk, Finished
from orchestrator.review.server import Server

LOOPBACK = "127.0.0.1"


def serve(
    desk: Desk, listener: socket.socket, *, open_browser: bool, say: Callable[[str], None]
) -> Finished | None:
    """Serve on 127.0.0.1 until the page says finish; None when it was left with Ctrl-C."""
    chosen = listener.getsockname()[1]
    server = Server(desk, (f"{LOOPBACK}:{chosen}", f"localhost:{chosen}"))
    config = uvicorn.Config(
        server.app(), log_level="warning", access_log=False, timeout_graceful_shutdown=2
    )
    running = uvicorn.Server(config)
    server.on_finish = lambda: setattr(running, "should_exit", True)
    url = f"http://{LOOPBACK}:{chosen}/{server.token}/"
    say(f"review: {url}\n  decisions are saved as you make them; Ctrl-C leaves")
    if open_browser and not webbrowser.open(url):
        say("  no browser was found: open that address yourself")
    try:
        running.run(sockets=[listener])
    except KeyboardInterrupt:
        return server.finished
    return server.finished


def listen(port: int) -> socket.socket:
    """A socket on a port of 127.0.0.1; 0 takes a free one.

    Raises:
        InputError: the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {LOOPBACK}:{port}: {error.strerror}", fix="choose another --port"
        ) from error
    return listener
