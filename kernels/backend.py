"""Which of three ways a Triton kernel runs here: on a GPU, interpreted, or as its torch model.

Import this before any module that defines Triton kernels: the interpreter is chosen while
kernels are decorated, so the choice has to be in the environment by then.
"""

from __future__ import annotations

import enum
import importlib.util
import os

import torch


class Backend(str, enum.Enum):
    """How a kernel was executed, and so what its result proves."""

    GPU = "triton_gpu"
    INTERPRETER = "triton_interpreter"
    MODEL = "torch_model"

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
}


def select() -> Backend:
    """Choose the best backend this machine has, and switch the interpreter on where it is needed.

    `TRITON_INTERPRET=1` in the environment keeps a GPU machine on the interpreter.
    """
    if importlib.util.find_spec("triton") is None:
        return Backend.MODEL
    if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET", "0") != "1":
        return Backend.GPU
    os.environ["TRITON_INTERPRET"] = "1"
    return Backend.INTERPRETER
