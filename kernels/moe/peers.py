"""Other implementations of the layer, timed in the same run: torch's, and installed libraries'.

A peer that is not there is skipped and says why. Nothing of them is copied here.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
from torch.nn.functional import silu

from kernels.moe import grouped_gemm
from kernels.moe.layer import chosen_config, moe
from kernels.moe.problem import Problem
from kernels.moe.workspace import reserve
from kernels.timing.rounds import captured


class UnavailableError(Exception):
    """The peer cannot run here; the message says why."""


class FailedError(Exception):
    """The peer is here, and raised when it was loaded or run; the message says what."""


class LostGpuError(Exception):
    """A peer's kernel faulted, after which CUDA runs nothing more in this process."""


@dataclass(frozen=True)
class Peer:
    """Another layer: `run` computes it from the problem's operands as they are.

    `graph` is False where a host synchronisation forbids capture.
    """

    name: str
    run: Callable[[], torch.Tensor]
    graph: bool = True


def ours_in_bf16(problem: Problem) -> Peer:
    """Our own layer on 16-bit weights: what rounding them buys, or else the same call twice."""
    x = problem.x
    config = chosen_config(problem.shape, x, problem.w13, problem.w2)
    workspace = reserve(problem.shape, config, x.dtype, x.device)
    out = torch.empty_like(x)

    def run() -> torch.Tensor:
        return moe(
            x, problem.w13, problem.w2, problem.ids, problem.weights,
            workspace=workspace, out=out,
        )  # fmt: skip

    return Peer("bf16", run)


def eager_loop(problem: Problem) -> Peer:
    """A torch loop over experts, as a first version would be written; synchronises per expert."""

    def run() -> torch.Tensor:
        out = torch.zeros_like(problem.x)
        for expert in range(problem.shape.experts):
            tokens, choices = torch.where(problem.ids == expert)
            if not len(tokens):
                continue
            gate, up = (problem.x[tokens] @ problem.w13[expert].t()).chunk(2, dim=1)
            rows = (silu(gate) * up) @ problem.w2[expert].t()
            weights = problem.weights[tokens, choices, None].to(rows.dtype)
            out.index_add_(0, tokens, rows * weights)
        return out

    return Peer("eager", run, graph=False)


def grouped_mm(problem: Problem) -> Peer:
    """torch's grouped GEMM between torch's sort and Triton glue (activation, combination)."""
    _require_all_valid(problem, "grouped_mm")
    multiply = _grouped_mm()
    shape, x = problem.shape, problem.x
    rows = torch.tensor([shape.tokens * shape.top_k], dtype=torch.int32, device=x.device)

    def run() -> torch.Tensor:
        order, ends = _sorted_by_expert(problem)
        row_of_choice = torch.empty_like(order, dtype=torch.int32)
        row_of_choice[order] = torch.arange(len(order), dtype=torch.int32, device=x.device)
        gathered = x.index_select(0, order // shape.top_k)
        gate_up = multiply(gathered, problem.w13.transpose(1, 2), offs=ends)
        h = torch.empty(len(order), shape.inter, dtype=x.dtype, device=x.device)
        grouped_gemm.activation_kernel[(len(order),)](
            gate_up, h, rows, shape.inter, BLOCK=triton.next_power_of_2(shape.inter)
        )
        y = multiply(h, problem.w2.transpose(1, 2), offs=ends)
        out = torch.empty_like(x)
        grid = (triton.cdiv(shape.tokens, 8), triton.cdiv(shape.hidden, 256))
        grouped_gemm.combine_kernel[grid](
            y, out, row_of_choice, problem.weights, shape.tokens, shape.hidden,
            TOP_K=shape.top_k, TOKENS=8, COLUMNS=256,
        )  # fmt: skip
        return out

    return Peer("grouped_mm", run)


def grouped_mm_compiled(problem: Problem) -> Peer:
    """The same with torch glue, under torch.compile."""
    _require_all_valid(problem, "grouped_mm_compiled")
    multiply = _grouped_mm()
    shape = problem.shape

    def layer(
        x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, ids: torch.Tensor, w: torch.Tensor
    ) -> torch.Tensor:
        flat, order = torch.sort(ids.view(-1), stable=True)
        experts = torch.arange(shape.experts, device=x.device, dtype=flat.dtype)
        ends = torch.searchsorted(flat, experts, right=True).int()
        gate, up = multiply(x[order // shape.top_k], w13.transpose(1, 2), offs=ends).chunk(2, 1)
        y = multiply(silu(gate) * up, w2.transpose(1, 2), offs=ends)
        back = torch.empty_like(y)
        back[order] = y
        weighted = back.view(shape.tokens, shape.top_k, -1).float() * w[..., None]
        return weighted.sum(1).to(x.dtype)

    compiled = torch.compile(layer)
    return Peer(
        "grouped_mm_compiled",
        lambda: compiled(problem.x, problem.w13, problem.w2, problem.ids, problem.weights),
    )


def vllm(problem: Problem) -> Peer:
    """vLLM's Triton fused MoE, with whichever config its version ships for this size."""
    _require_package("vllm")
    _require_gpu("vllm")
    _require_all_valid(problem, "vllm")
    _name_gpus_by_number()
    from vllm.model_executor.layers.fused_moe import fused_experts

    return Peer(
        "vllm",
        lambda: fused_experts(
            problem.x, problem.w13, problem.w2, problem.weights, problem.ids, inplace=False
        ),
    )


def sglang(problem: Problem) -> Peer:
    """SGLang's Triton fused MoE in the one release known here, with its config for this size."""
    _require_package("sglang")
    _require_gpu("sglang")
    _require_all_valid(problem, "sglang")
    from kernels.moe.peer_sglang import NotThisReleaseError, adapter

    try:
        run = adapter(problem)
    except NotThisReleaseError as other:
        raise UnavailableError(str(other)) from other
    return Peer("sglang", run)


def triton_kernels(problem: Problem) -> Peer:
    """OpenAI's triton_kernels, sorting and reduction its own, in the one release known here."""
    _require_all_valid(problem, "triton_kernels")
    from kernels.moe.peer_triton_kernels import NotThisReleaseError, adapter

    try:
        run = adapter(problem)
    except NotThisReleaseError as other:
        raise UnavailableError(str(other)) from other
    _require_gpu("triton_kernels")
    return Peer("triton_kernels", run)


ALL: dict[str, Callable[[Problem], Peer]] = {
    "bf16": ours_in_bf16,
    "eager": eager_loop,
    "grouped_mm": grouped_mm,
    "grouped_mm_compiled": grouped_mm_compiled,
    "vllm": vllm,
    "sglang": sglang,
    "triton_kernels": triton_kernels,
}


def ready(name: str, problem: Problem) -> Peer:
    """A peer that was tried as it will be timed, so that its failure costs the others no time.

    Raises:
        UnavailableError: it is not here, or not for this call.
        FailedError: it raised, at its import or when it ran, or gave no output of the right size.
        LostGpuError: so, and this process can use the GPU no more.
    """
    try:
        peer = ALL[name](problem)
        _try(peer, problem.x.shape)
    except UnavailableError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        if _gpu_is_lost():
            raise LostGpuError(f"{name} broke the GPU's context ({said}); leave it out") from error
        raise FailedError(said) from error
    return peer


def _gpu_is_lost() -> bool:
    if not torch.cuda.is_available():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _try(peer: Peer, size: torch.Size) -> None:
    for _ in range(2):
        out = peer.run()
        if not isinstance(out, torch.Tensor) or out.shape != size:
            given = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise TypeError(f"it returned {given}, not a tensor of {tuple(size)}")
    if torch.cuda.is_available():
        if peer.graph:
            captured(peer.run)()
        # A fault of its kernels shows up here, not in the others' rounds.
        torch.cuda.synchronize()


def _grouped_mm() -> Callable[..., torch.Tensor]:
    public = getattr(torch.nn.functional, "grouped_mm", None)
    found = public or getattr(torch, "_grouped_mm", None)
    if found is None:
        raise UnavailableError(f"torch {torch.__version__} has no grouped_mm")
    return found


def _sorted_by_expert(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Choices in expert order, and where each expert ends."""
    flat, order = torch.sort(problem.ids.view(-1), stable=True)
    experts = torch.arange(problem.shape.experts, device=flat.device, dtype=flat.dtype)
    return order, torch.searchsorted(flat, experts, right=True).int()


def _require_all_valid(problem: Problem, name: str) -> None:
    if any((routing.ids < 0).any() for routing in problem.routings):
        raise UnavailableError(f"{name} is asked for calls without dropped choices only")
    if problem.x.dtype is not torch.bfloat16:
        raise UnavailableError(f"{name} is asked for bfloat16 only, not {problem.x.dtype}")


def _name_gpus_by_number() -> None:
    """vLLM 0.21 reads CUDA_VISIBLE_DEVICES itself and fails on the UUIDs that a run puts there.

    CUDA has read the variable by then: this changes what vLLM reads, and what processes started
    from here on see, which is the same GPUs.
    """
    torch.cuda.init()
    numbers = os.environ.get("ORCH_GPU_INDICES")
    if numbers:
        os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=numbers)


def _require_gpu(name: str) -> None:
    if not torch.cuda.is_available():
        raise UnavailableError(f"{name} is asked for on a GPU only, and there is none here")


def _require_package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError as missing:
        raise UnavailableError(f"{name} is not installed on this host") from missing
