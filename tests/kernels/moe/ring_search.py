"""Every state that a ring's processes can reach, and what is wrong in the first that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.kernels.moe.ring_model import PRODUCERS, Op, Ring, programs


class State(NamedTuple):
    """How far each process is, phases over and arrivals of each barrier, and what slots hold."""

    at: tuple[int, ...]
    barriers: tuple[tuple[int, int], ...]
    held: tuple[int, ...]
    readers: tuple[int, ...]


def search(ring: Ring) -> tuple[int, list[str]]:
    """All states that can be reached, counted, and what is wrong in the first that is wrong."""
    return _Search(ring).run()


class _Search:
    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._programs = programs(ring)
        self._names = list(self._programs)
        ops = [op for program in self._programs.values() for op in program]
        self._barriers = sorted(
            {op.name for op in ops if op.kind in ("wait", "arrive", "load") and op.name}
        )
        self._slots = sorted({slot for op in ops for slot in op.slots})

    def run(self) -> tuple[int, list[str]]:
        start = State(
            (0,) * len(self._names),
            ((0, 0),) * len(self._barriers),
            (-1,) * len(self._slots),
            (0,) * len(self._slots),
        )
        seen, todo = {start}, [start]
        while todo:
            state = todo.pop()
            found = list(self._after(state))
            wrong = [text for _, text in found if text]
            if not found and not self._all_done(state):
                wrong = [f"nobody can go on: {self._where(state)}"]
            if wrong:
                return len(seen), wrong
            for following, _ in found:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return len(seen), []

    def _all_done(self, state: State) -> bool:
        return all(
            at == len(self._programs[name]) for name, at in zip(self._names, state.at, strict=True)
        )

    def _where(self, state: State) -> str:
        waiting = {
            name: self._programs[name][at]
            for name, at in zip(self._names, state.at, strict=True)
            if at < len(self._programs[name])
        }
        return ", ".join(f"{name} at {op.kind} {op.name}" for name, op in waiting.items())

    def _after(self, state: State) -> Iterator[tuple[State, str]]:
        for index, name in enumerate(self._names):
            at = state.at[index]
            if at == len(self._programs[name]):
                continue
            op = self._programs[name][at]
            if op.kind == "meet":
                yield from self._met(state, index, op)
            elif self._may(state, op):
                yield self._done(state, (index,), op)

    def _met(self, state: State, index: int, op: Op) -> Iterator[tuple[State, str]]:
        """Both of a group, once both are there; the first of them tells."""
        others = [
            other
            for other, name in enumerate(self._names)
            if state.at[other] < len(self._programs[name])
            and self._programs[name][state.at[other]] == op
        ]
        if len(others) == len(PRODUCERS) and others[0] == index:
            yield self._done(state, tuple(others), op)

    def _may(self, state: State, op: Op) -> bool:
        if op.kind == "wait":
            # A barrier tells only whether its current phase is the asked one or the next.
            return state.barriers[self._barriers.index(op.name)][0] % 2 != op.number
        if op.kind == "load":
            return state.at[self._names.index(op.by)] >= op.since
        return True

    def _done(self, state: State, who: tuple[int, ...], op: Op) -> tuple[State, str]:
        at = tuple(number + (index in who) for index, number in enumerate(state.at))
        barriers, held, readers = list(state.barriers), list(state.held), list(state.readers)
        wrong = ""
        for slot in op.slots:
            index = self._slots.index(slot)
            if op.kind in ("write", "load"):
                if readers[index]:
                    wrong = f"{slot} is read while {op.number} is written to it"
                held[index] = op.number
            elif op.kind == "read":
                if held[index] != op.number:
                    wrong = f"{slot} is read for {op.number} and holds {held[index]}"
                readers[index] += 1
            else:
                readers[index] -= 1
        if op.kind in ("arrive", "load") and op.name:
            index = self._barriers.index(op.name)
            phase, arrived = barriers[index]
            full = arrived + 1 == self._ring.arrivals(op.name)
            barriers[index] = (phase + 1, 0) if full else (phase, arrived + 1)
        return State(at, tuple(barriers), tuple(held), tuple(readers)), wrong
