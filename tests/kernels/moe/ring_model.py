"""A model of how one program of the Hopper kernel hands stages and items over.

The model has the rings, barriers and waits of `kernels/moe/hopper` (`fill_stages`, `send` and
`receive`, the main loop of `consume`) and knows nothing of numbers: a slot holds the step or item
that was last written to it. Two producer warps, their copies under way, the copy engine and two
consumer warp groups run in every possible order (`ring_search`). Wrong are a write to what
somebody reads, a read of anything but what was meant, and a state in which nobody can go on.

Weaker than the kernel on purpose: producer warps never meet while they fill stages, and the engine
may finish the copies of different stages in any order. A write is a moment and a read a span; if
the two can overlap at all, some order has the moment inside the span.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

PRODUCERS = ("P0", "P1")
CONSUMERS = ("C0", "C1")
FAULTS = (
    "stage not waited for",
    "stage released a step early",
    "released without meeting",
    "tail ring not waited for",
    "mail not waited for",
    "bytes not counted",
)


class Op(NamedTuple):
    """One indivisible act of a process.

    wait(name, number): until phase `number` of that barrier is over; arrive(name); meet(name) with
    the group; read(slots, number) and done(slots); write(slots, number); load: write and arrive at
    `name`, once process `by` has come to its operation `since`.
    """

    kind: str
    name: str = ""
    number: int = 0
    slots: tuple[str, ...] = ()
    by: str = ""
    since: int = 0


@dataclass(frozen=True)
class Ring:
    """Sizes of the rings, the steps of each item, and a fault to plant.

    An item of 0 steps is a combination: it goes through the mail and fills no stage.
    """

    stages: int = 2
    tail_stages: int = 2
    mail: int = 2
    items: tuple[int, ...] = (2, 1, 0, 2)
    fault: str = ""

    def is_(self, fault: str) -> bool:
        assert fault in FAULTS
        return self.fault == fault

    def written(self, step: int) -> dict[str, tuple[str, ...]]:
        """Slots of a step, by who writes them."""
        stage, tail = step % self.stages, step % self.tail_stages
        rows = {warp: (f"rows{stage}.{warp}", f"tail{tail}.{warp}") for warp in PRODUCERS}
        return {"engine": (f"weights{stage}",), **rows}

    def slots(self, step: int) -> tuple[str, ...]:
        return tuple(slot for slots in self.written(step).values() for slot in slots)

    def arrivals(self, barrier: str) -> int:
        """How many arrivals end a phase.

        full: copies of two warps, the expectation, and its bytes. sent and read: both of the group,
        and the one that speaks for it.
        """
        if barrier.startswith("full"):
            return 3 if self.is_("bytes not counted") else 4
        return 1 if barrier.startswith("empty") else 3


@dataclass
class Made:
    """The operations of every process, as they are put together."""

    ring: Ring
    programs: dict[str, list[Op]] = field(default_factory=dict)

    def add(self, who: str, *ops: Op) -> None:
        self.programs.setdefault(who, []).extend(ops)

    def meet(self, group: tuple[str, ...], name: str) -> None:
        for who in group:
            self.add(who, Op("meet", name))

    def load(self, by: str, agent: str, slots: tuple[str, ...], step: int, *, told: bool) -> None:
        stage = step % self.ring.stages
        name = f"full{stage}" if told else ""
        self.add(agent, Op("load", name, step, slots, by, len(self.programs[by])))


def programs(ring: Ring) -> dict[str, list[Op]]:
    """What each process does, from the first item to the one that says that there is none left."""
    made = Made(ring)
    step = 0
    for count, steps in enumerate((*ring.items, 0)):
        _send(made, count)
        _receive(made, count)
        for k in range(steps):
            _fill(made, step)
            _use(made, step, first=k == 0)
            step += 1
        if steps:
            _release(made, step - 1, step - 1)
    return made.programs


def _send(made: Made, count: int) -> None:
    ring = made.ring
    slot, turn = count % ring.mail, count // ring.mail
    for warp in PRODUCERS:
        if not ring.is_("mail not waited for"):
            made.add(warp, Op("wait", f"read{slot}", (turn & 1) ^ 1))
        made.add(warp, Op("write", number=count, slots=(f"mail{slot}.{warp}",)))
    _hand_over(made, PRODUCERS, f"sent{slot}", count)


def _receive(made: Made, count: int) -> None:
    slot, turn = count % made.ring.mail, count // made.ring.mail
    slots = tuple(f"mail{slot}.{warp}" for warp in PRODUCERS)
    for group in CONSUMERS:
        made.add(group, Op("wait", f"sent{slot}", turn & 1), Op("read", number=count, slots=slots))
        made.add(group, Op("done", slots=slots))
    _hand_over(made, CONSUMERS, f"read{slot}", count)


def _hand_over(made: Made, group: tuple[str, ...], barrier: str, count: int) -> None:
    made.meet(group, f"{barrier} {count}")
    for who in (group[0], *group):
        made.add(who, Op("arrive", barrier))


def _fill(made: Made, step: int) -> None:
    ring = made.ring
    stage, turn = step % ring.stages, step // ring.stages
    used = step - ring.tail_stages
    written = ring.written(step)
    for warp in PRODUCERS:
        if not ring.is_("stage not waited for"):
            made.add(warp, Op("wait", f"empty{stage}", (turn & 1) ^ 1))
        if warp == "P0":
            made.add(warp, Op("arrive", f"full{stage}"))
            told = not ring.is_("bytes not counted")
            made.load(warp, f"engine {stage}", written["engine"], step, told=told)
        shorter = ring.tail_stages < ring.stages and used >= 0
        if shorter and not ring.is_("tail ring not waited for"):
            made.add(warp, Op("wait", f"empty{used % ring.stages}", (used // ring.stages) & 1))
        made.load(warp, f"copies of {warp}", written[warp], step, told=True)


def _use(made: Made, step: int, *, first: bool) -> None:
    """Products of one step stay under way while those of the step before are released."""
    ring = made.ring
    stage, turn = step % ring.stages, step // ring.stages
    for group in CONSUMERS:
        made.add(group, Op("wait", f"full{stage}", turn & 1))
        made.add(group, Op("read", number=step, slots=ring.slots(step)))
    if not first:
        _release(made, step - 1, step if ring.is_("stage released a step early") else step - 1)


def _release(made: Made, done: int, released: int) -> None:
    ring = made.ring
    for group in CONSUMERS:
        made.add(group, Op("done", slots=ring.slots(done)))
    if not ring.is_("released without meeting"):
        made.meet(CONSUMERS, f"done {done}")
    made.add("C0", Op("arrive", f"empty{released % ring.stages}"))
