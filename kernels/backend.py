"""Which way a Triton kernel runs here: on a GPU, interpreted, as its torch model, or not at all.

Every kernel package imports this first: Triton decides whether to interpret while it is imported,
so the choice has to be in the environment by then.
"""

from __future__ import annotations

import enum
import importlib.util
import os
import sys

import torch

OVERRIDE = "KERNELS_BACKEND"


class Backend(str, enum.Enum):
    """How a kernel was executed, and so what its result proves."""

    GPU = "triton_gpu"
    INTERPRETER = "triton_interpreter"
    MODEL = "torch_model"
    COMPILE_ONLY = "compile_only"

    @property
    def proves(self) -> str:
        return _PROVES[self]

    @property
    def device(self) -> str:
        return "cuda" if self is Backend.GPU else "cpu"


_PROVES = {
    Backend.GPU: "the compiled kernel on this GPU",
    Backend.INTERPRETER: (
        "the kernel's source, masks and arithmetic, interpreted on the CPU;"
        " it says nothing about speed, generated code, races or memory faults"
    ),
    Backend.MODEL: (
        "only a torch model of the kernel's tiling, because Triton cannot be imported here;"
        " the Triton source was not run"
    ),
    Backend.COMPILE_ONLY: "that the kernel compiles, and what it needs; nothing was run",
}


def select() -> Backend:
    """Choose the best backend this machine has, and switch the interpreter on where it is needed.

    `TRITON_INTERPRET=1` keeps a GPU machine on the interpreter; `KERNELS_BACKEND=compile_only` is
    for compiling without a device.

    Raises:
        RuntimeError: the interpreter is needed, but Triton was imported without it.
    """
    if os.environ.get(OVERRIDE) == Backend.COMPILE_ONLY.value:
        return Backend.COMPILE_ONLY
    if importlib.util.find_spec("triton") is None:
        return Backend.MODEL
    interpret = os.environ.get("TRITON_INTERPRET", "0") == "1"
    if torch.cuda.is_available() and not interpret:
        return Backend.GPU
    if not interpret and "triton" in sys.modules:
        raise RuntimeError(
            "there is no GPU, and Triton was imported before the interpreter could be switched on;"
            " set TRITON_INTERPRET=1, or import kernels.backend before triton"
        )
    os.environ["TRITON_INTERPRET"] = "1"
    return Backend.INTERPRETER


BACKEND = select()


def multiplies_e4m3(device: torch.device) -> bool:
    """Whether `tl.dot` takes e4m3 operands on this device; without, they are widened first."""
    if BACKEND is not Backend.GPU or device.type != "cuda" or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 9)
