"""The few PTX instructions that rules care about, read out of inline assembly strings."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PREDICATE = re.compile(r"^@!?[%\w]+\s+")
_LABEL = re.compile(r"^\s*[\w$%{}]+:\s*")
_OPERAND = re.compile(r"\[[^\]]*\]|\{[^}]*\}|[^,\s][^,]*")


@dataclass(frozen=True)
class Instruction:
    """One instruction: `bar.sync 1, 128` has opcode `bar.sync` and operands `1` and `128`."""

    opcode: str
    operands: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))


@dataclass(frozen=True)
class NamedBarrier:
    """A use of one of the 16 hardware barriers of a block.

    `id` and `threads` are the operands as written; `threads` is None when the instruction has none
    (then the whole block takes part).
    """

    id: str
    threads: str | None
    opcode: str


def instructions(assembly: str) -> list[Instruction]:
    """Split the text of an asm string (escapes already resolved) into instructions."""
    found = []
    text = _COMMENT.sub(" ", assembly).replace("{", " { ").replace("}", " } ")
    for piece in re.split(r"[;\n]", text):
        line = piece.strip().lstrip("{} \t").rstrip("} \t")
        line = _PREDICATE.sub("", _LABEL.sub("", line)).strip()
        if not line or line.startswith("."):
            continue
        opcode, _, rest = line.partition(" ")
        operands = tuple(word.strip() for word in _OPERAND.findall(rest))
        found.append(Instruction(opcode, operands))
    return found


def named_barrier(instruction: Instruction) -> NamedBarrier | None:
    """The barrier an instruction uses: `bar.*` and `barrier.*`, but not clusters or mbarriers."""
    parts = instruction.parts
    if parts[0] not in ("bar", "barrier") or "cluster" in parts or "warp" in parts:
        return None
    operands = instruction.operands
    if "red" in parts:
        operands = operands[1:]
    if not operands:
        return None
    has_count = len(operands) > 1 and not (
        "red" in parts and operands[1].startswith(("%p", "!", "p"))
    )
    return NamedBarrier(operands[0], operands[1] if has_count else None, instruction.opcode)


def is_system_atomic(instruction: Instruction) -> bool:
    """`atom` and `red` at system scope. A `.sys` store or load is not an atomic update."""
    parts = instruction.parts
    return parts[0] in ("atom", "red", "multimem") and (
        "sys" in parts and (parts[0] != "multimem" or "red" in parts)
    )


def is_remote_signal_write(instruction: Instruction) -> bool:
    """Stores that publish to another device: system-scope releases and multimem stores."""
    parts = instruction.parts
    return parts[0] in ("st", "multimem") and "sys" in parts
