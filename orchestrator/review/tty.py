"""The review in a terminal: one difference after the other, accept, reject, later or leave."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.diff.record import Record
from orchestrator.errors import InputError
from orchestrator.report.words import harmless, state_words
from orchestrator.review.desk import Desk, Finished
from orchestrator.review.subject import Subject

KEYS = "[a]ccept  [r]eject  [l]ater  [q]uit"
Ask = Callable[[str], str]


def review(desk: Desk, console: Console, ask: Ask) -> Finished | None:
    """Ask about everything that is open; None when the reader quits before the end."""
    waiting = desk.open
    if not waiting:
        console.print("nothing is open")
        return desk.finish()
    for number, subject in enumerate(waiting, 1):
        if desk.decided(subject):
            continue
        console.rule(f"{number} of {len(waiting)}")
        _show(subject, console)
        if not _decided(desk, subject, console, ask):
            console.print(f"saved; {len(desk.open)} still open")
            return None
    return desk.finish()


def _decided(desk: Desk, subject: Subject, console: Console, ask: Ask) -> bool:
    """Take one decision, or none yet; False to quit."""
    keys = KEYS + _for_the_others(desk, subject)
    while True:
        try:
            key = ask(f"{keys}: ").strip()[:1]
        except EOFError:
            return False
        if key.lower() in ("q", "l"):
            return key.lower() == "l"
        verdict = {"a": "accepted", "r": "rejected"}.get(key.lower())
        if verdict is None:
            continue
        try:
            reason = ask("reason: ")
            desk.decide(subject.id, verdict, reason)
            if key.isupper():
                desk.decide_others(subject.id, verdict, reason)
        except EOFError:
            return False
        except InputError as error:
            console.print(Text(str(error), style="yellow"))
        else:
            return True


def _for_the_others(desk: Desk, subject: Subject) -> str:
    count = len(desk.others(subject))
    if not count:
        return ""
    those = f"the {count} others" if count > 1 else "the other one"
    return f"; [A] or [R] also for {those}: {harmless(subject.like)}"


def _show(subject: Subject, console: Console) -> None:
    console.print(
        Text.assemble(
            (state_words(subject.status), "bold"), "  ", (harmless(subject.title), "bold")
        )
    )
    console.print(Text(harmless(subject.seen)))
    for note in subject.notes:
        console.print(Text(harmless(note), style="dim"))
    if subject.item is not None and subject.item.because:
        console.print(Text(f"because: {harmless(subject.item.because)}", style="dim"))
    if subject.item is not None and subject.item.decides:
        console.print(Text(f"decides: {harmless(subject.item.decides)}", style="yellow"))
    if subject.record is not None:
        _show_record(subject.record, console, depth=0)


def _show_record(record: Record, console: Console, depth: int) -> None:
    if record.metrics:
        words = ", ".join(f"{name} {value:.6g}" for name, value in record.metrics.items())
        console.print(Text("  " * depth + words))
    if record.locations:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for header in ("where", "A", "B"):
            table.add_column(header)
        for place in record.locations[:10]:
            table.add_row(*(Text(harmless(text)) for text in (place.where, place.a, place.b)))
        console.print(table)
    hidden = record.more + max(len(record.locations) - 10, 0)
    if hidden:
        console.print(Text(f"and {hidden} more places", style="dim"))
    for child in record.children[:20]:
        console.print(Text(f"{'  ' * depth}  {state_words(child.status)}  {harmless(child.path)}"))
        if depth == 0:
            _show_record(child, console, depth + 1)
