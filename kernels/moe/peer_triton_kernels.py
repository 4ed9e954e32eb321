"""OpenAI's triton_kernels as a peer: its two grouped GEMMs behind its own sorting of choices.

It has no version that can be asked for and changes its interface between releases. This is written
for the one that vLLM 0.21 brings along in `vllm/third_party`, which is found when that folder is on
the module path; another is refused with what it lacks. PyPI has another project of the same name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.moe.problem import Problem

WORD = 32
NEEDED = {
    "triton_kernels.matmul_ogs": (
        "FnSpecs", "FusedActivation", "GatherIndx", "RoutingData", "ScatterIndx", "matmul_ogs",
    ),
    "triton_kernels.tensor": ("BIT", "Bitmatrix", "SparseMatrix", "make_ragged_tensor_metadata"),
}  # fmt: skip


class NotThisReleaseError(Exception):
    """The package is missing, or has not what the adapter calls; the message says what."""


@triton.jit
def silu_of_pairs(tile):
    """SiLU(gate) * up of a tile whose columns are gate and up in turn: (M, N) -> (M, N / 2)."""
    gate, up = tl.split(tl.reshape(tile, (tile.shape[0], tile.shape[1] // 2, 2)))
    gate = gate.to(tl.float32)
    return gate / (1.0 + tl.exp(-gate)) * up.to(tl.float32)


@triton.jit
def pack_kernel(ids_ptr, bits_ptr, words, TOP_K: tl.constexpr, WORDS: tl.constexpr):
    """A token's chosen experts as bits of `words` 32-bit words."""
    token = tl.program_id(0)
    word = tl.arange(0, WORDS)
    bits = tl.zeros((WORDS,), tl.int32)
    for j in tl.static_range(TOP_K):
        expert = tl.load(ids_ptr + token * TOP_K + j).to(tl.int32)
        bits |= tl.where(word == expert // 32, 1 << (expert % 32), 0)
    tl.store(bits_ptr + token * words + word, bits, mask=word < words)


def adapter(problem: Problem) -> Callable[[], torch.Tensor]:
    """A call of its layer on the problem's operands as they are.

    Its own top-k would give the bits of the chosen experts; packing them is counted, a launch.
    Gate and up rows are interleaved beforehand, as its fused activation wants them.

    Raises:
        NotThisReleaseError: there is no such package here, or another release of it.
    """
    found = _needed()
    shape, x = problem.shape, problem.x
    assert isinstance(problem.w13, torch.Tensor)
    assert isinstance(problem.w2, torch.Tensor)
    halves = problem.w13.view(shape.experts, 2, shape.inter, shape.hidden)
    w13 = halves.transpose(1, 2).reshape(problem.w13.shape).transpose(1, 2)
    w2 = problem.w2.transpose(1, 2)
    words = triton.cdiv(shape.experts, WORD)
    bits = torch.empty((shape.tokens, words), dtype=torch.int32, device=x.device)
    specs = found["FnSpecs"]("silu_of_pairs", silu_of_pairs, (), reduction_n=2)
    activation = found["FusedActivation"](specs, ())

    def run() -> torch.Tensor:
        pack_kernel[(shape.tokens,)](
            problem.ids, bits, words,
            TOP_K=shape.top_k, WORDS=triton.next_power_of_2(words), num_warps=1,
        )  # fmt: skip
        routing, gather, scatter = _routing(found, problem, bits)
        hidden = found["matmul_ogs"](
            x, w13, None, routing, gather_indx=gather, fused_activation=activation
        )
        out = found["matmul_ogs"](
            hidden, w2, None, routing, scatter_indx=scatter, gammas=routing.gate_scal
        )
        return out.view(x.shape)

    return run


def _routing(found: dict[str, Any], problem: Problem, bits: torch.Tensor) -> tuple[Any, Any, Any]:
    tokens, words = bits.shape
    mask = found["Bitmatrix"](
        bits.view(torch.uint32), dtype=found["BIT"],
        shape=[tokens, words * WORD], shape_max=[tokens, None],
    )  # fmt: skip
    chosen = found["SparseMatrix"](
        indx=problem.ids.to(torch.int16), vals=problem.weights, mask=mask
    )
    metadata = chosen.mask_metadata
    dispatch, combine = metadata.row_sorted_indx, metadata.col_sorted_indx
    ragged = found["make_ragged_tensor_metadata"](metadata.col_sum, dispatch.shape[0])
    routing = found["RoutingData"](
        chosen.vals.flatten()[combine], ragged.slice_sizes,
        problem.shape.experts, problem.shape.top_k, ragged,
    )  # fmt: skip
    return (
        routing,
        found["GatherIndx"](combine, dispatch),
        found["ScatterIndx"](dispatch, combine),
    )


def _needed() -> dict[str, Any]:
    found = {}
    for module, names in NEEDED.items():
        try:
            held = importlib.import_module(module)
        except ImportError as missing:
            raise NotThisReleaseError(f"no module {module} that loads: {missing}") from missing
        for name in names:
            if not hasattr(held, name):
                raise NotThisReleaseError(f"{module} has no {name}: another release")
            found[name] = getattr(held, name)
    return found
