"""From a bundle that has arrived to a run that is home, and a host that knows it."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.errors import EvidenceError, HostError
from orchestrator.link import visits
from orchestrator.link.refusal import Refused
from orchestrator.outcome import Outcome
from orchestrator.reading import known_history
from orchestrator.store import arrival


def verify(outcome: Outcome) -> Outcome:
    """Check the bundle against the host's word and its own manifest, and put it in its place.

    Raises:
        EvidenceError: something in it is not what it claims; nothing half-checked is left behind.
    """
    following = outcome.following
    assert following is not None, "`follow` ends with an open conversation"
    try:
        outcome = _home(outcome)
    except BaseException:
        # Closed without the word that the host waits for: it keeps its copy.
        following.leave()
        raise
    outcome = replace(outcome, following=None).timed(home_s=outcome.since_begin_s())
    return _confirmed(outcome) if following.confirm() else outcome


def settle(outcome: Outcome) -> Outcome:
    """Call home what an earlier visit brought whole; the host is told, where it can be.

    Raises:
        EvidenceError: as `verify`.
    """
    outcome = _home(outcome)
    assert outcome.record.bundle is not None, "what arrived whole was announced"
    if outcome.host is None:
        outcome.teller.note(f"note: no host `{outcome.host_name}` is known that could be told")
        return outcome
    try:
        visits.tell_home(
            outcome.host_name, outcome.host, outcome.record.run_id, outcome.record.bundle
        )
    except (HostError, Refused) as error:
        outcome.teller.note(f"note: {outcome.host_name} does not know that it is home: {error}")
        return outcome
    return _confirmed(outcome)


def _home(outcome: Outcome) -> Outcome:
    """Put the bundle in its place; what it says counts, not what was heard on the way."""
    folder, announced = outcome.folder, outcome.record.bundle
    assert announced is not None, "the host has said what its bundle is"
    taken = arrival.take(folder, announced)
    if taken.aside is not None:
        outcome.teller.note(f"what lay in evidence/ did not come home; kept as {taken.aside}")
    outcome = replace(outcome, history=known_history(folder))
    tree = outcome.record.tree.model_copy(update={"host": outcome.history.tree})
    outcome = outcome.noted(tree=tree, counts=outcome.history.counts)
    _check_tree(outcome)
    here = announced.model_copy(update={"files": taken.files, "confirmed": False})
    return outcome.noted(bundle=here, state="home")


def _confirmed(outcome: Outcome) -> Outcome:
    assert outcome.record.bundle is not None, "what is home has a bundle"
    return outcome.noted(bundle=outcome.record.bundle.model_copy(update={"confirmed": True}))


def _check_tree(outcome: Outcome) -> None:
    tree = outcome.record.tree
    if tree.host != tree.local:
        raise EvidenceError(
            f"the host ran the tree {tree.host or 'unknown'}, not {tree.local}",
            fix="report this: the agent verifies the tree before the first step",
        )
