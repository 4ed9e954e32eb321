"""What a CUDA file synchronises with: barriers, their counts, writes other GPUs see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.rules.sync.threads import BLOCK_SYNCS, named_barriers
from preflight.syntax.cuda import CudaFile, CudaFunction
from preflight.syntax.ptx import is_remote_signal_write, is_system_atomic


@dataclass(frozen=True)
class BarrierUse:
    """One barrier id with one thread count. `threads` is a number, a source text, or `all`."""

    id: str
    threads: str
    uses: int


@dataclass(frozen=True)
class KernelRow:
    """What one function synchronises. `signals` are PTX opcodes that other devices can see."""

    path: str
    kernel: str
    line: int
    is_kernel: bool
    clean: bool
    barriers: tuple[BarrierUse, ...]
    signals: tuple[tuple[str, int], ...]


def inventory(file: CudaFile) -> Iterator[tuple[CudaFunction, KernelRow]]:
    """One row a function that synchronises or signals, in file order; unclean functions say so."""
    for function in file.functions:
        barriers: Counter[tuple[str, str]] = Counter()
        signals: Counter[str] = Counter()
        for call in function.calls:
            if call.name in BLOCK_SYNCS:
                barriers["0", "all"] += 1
            elif call.name.startswith("atomic") and call.name.endswith("_system"):
                signals[call.name] += 1
        for _, barrier in named_barriers(file, function):
            barriers[barrier.id, barrier.threads or "all"] += 1
        for asm in function.asms:
            for instruction in asm.instructions:
                if is_system_atomic(instruction) or is_remote_signal_write(instruction):
                    signals[instruction.opcode] += 1
        if barriers or signals:
            yield function, _row(file, function, barriers, signals)


def _row(
    file: CudaFile,
    function: CudaFunction,
    barriers: Counter[tuple[str, str]],
    signals: Counter[str],
) -> KernelRow:
    uses = [BarrierUse(key[0], key[1], count) for key, count in barriers.items()]
    return KernelRow(
        path=file.path,
        kernel=function.name,
        line=file.line_of(function.node.start_byte),
        is_kernel=function.is_kernel,
        clean=function.clean,
        barriers=tuple(sorted(uses, key=lambda use: (len(use.id), use.id, use.threads))),
        signals=tuple(sorted(signals.items())),
    )
