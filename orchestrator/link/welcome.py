"""The first words of a short conversation, over a lent connection if there is one that lives."""

from __future__ import annotations

from typing import Any

from orchestrator.errors import Unreachable
from orchestrator.link.session import LinkLost, Session

# An agent behind a lent connection has been started already: it answers at once or never.
LENT_DEADLINE_S = 5.0


def be_welcome(session: Session, action: str, deadline_s: float, **facts: Any) -> None:
    """Say what is wanted, and say it again over a connection of our own if a lent one is dead.

    Only for actions that may be asked for twice: the first connection may have died of the answer.

    Raises:
        LinkLost, HostError, Refused: as `Session.next`.
    """
    try:
        session.open(action, **facts)
        session.expect("welcome", LENT_DEADLINE_S if session.is_lent else deadline_s)
    except (Unreachable, LinkLost):
        if not session.is_lent:
            raise
        session.connect_anew()
        session.open(action, **facts)
        session.expect("welcome", deadline_s)
