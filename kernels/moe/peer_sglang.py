"""SGLang as a peer: its Triton fused MoE, called as its own layer calls it on one GPU.

Modules and arguments move between its releases. This is written for `RELEASE`; another is refused
by its version. Earlier ones for torch 2.11 have an activation that not every g++ compiles under
CUDA 13.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

import torch

from kernels.moe.problem import Problem

RELEASE = "0.5.13.post1"


class NotThisReleaseError(Exception):
    """Another release is installed; the message says which, and which is known here."""


def adapter(problem: Problem) -> Callable[[], torch.Tensor]:
    """A call of its layer on the problem's operands as they are.

    The release looks up its own config for the GPU's name, experts and columns, and has a default
    where it ships none; it logs which. The first call compiles its activation, with nvcc and ninja.

    Raises:
        NotThisReleaseError: the release installed is not `RELEASE`.
        ImportError: it is, and it or what it depends on does not load.
    """
    _require_release()
    from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig
    from sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe import fused_experts

    _serve_no_model()
    experts = problem.shape.experts
    # With every expert local it looks for no choices of another rank's experts.
    config = MoeRunnerConfig(num_experts=experts, num_local_experts=experts, inplace=False)

    def run() -> torch.Tensor:
        chosen = (problem.weights, problem.ids, None)
        return fused_experts(problem.x, problem.w13, problem.w2, chosen, config)

    return run


def _require_release() -> None:
    installed = importlib.metadata.version("sglang")
    if installed != RELEASE:
        raise NotThisReleaseError(f"sglang {installed} is installed, {RELEASE} is known here")


def _serve_no_model() -> None:
    """Set the server's arguments, which the layer asks for, to their defaults."""
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    # Any other path is asked for a model's files.
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))
