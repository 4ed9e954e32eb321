"""What the layer refuses, where it launches, and which operands keep it off the Hopper path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
import torch

from kernels.moe import layer
from kernels.moe import operands as operands_module
from kernels.moe.configs import HopperConfig, PortableConfig
from kernels.moe.layer import moe, reserve
from kernels.moe.operands import suits_hopper
from kernels.moe.routing import Routing
from kernels.moe.shapes import Shape
from tests.kernels.moe.layer_call import DEVICE, SMALL, Operands, operands


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"w13": torch.zeros(4, 31, 32)}, "weights do not fit"),
        ({"w2": torch.zeros(3, 32, 16)}, "weights do not fit"),
        ({"weights": torch.zeros(10, 3)}, "routing does not fit"),
        ({"weights": torch.zeros(10, 2).double()}, "float32"),
        ({"ids": torch.zeros(10, 2)}, "must be integers"),
        ({"x": torch.zeros(10, 32).half()}, "dtypes"),
        ({"x": torch.zeros(10)}, "expected x"),
        ({"combine": "sideways"}, "is not one of ordered, atomic"),
        ({"out": torch.zeros(10, 31)}, "`out` must be"),
    ],
)
def test_operands_that_do_not_fit_are_named(change: dict[str, object], said: str) -> None:
    given_operands = operands(Shape(10, 2, 4, 32, 16))
    call: dict[str, object] = {
        "x": given_operands.x, "w13": given_operands.w13, "w2": given_operands.w2,
        "ids": given_operands.routing.ids, "weights": given_operands.routing.weights,
        "config": SMALL,
    }  # fmt: skip
    moved = {
        name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for name, value in change.items()
    }

    with pytest.raises(ValueError, match=said):
        moe(**(call | moved))  # type: ignore[arg-type]


def test_a_workspace_of_another_size_is_refused() -> None:
    workspace = reserve(Shape(11, 2, 4, 32, 16), SMALL, torch.float32, DEVICE)

    with pytest.raises(ValueError, match="the workspace is for"):
        operands(Shape(10, 2, 4, 32, 16)).run(workspace=workspace)


@pytest.mark.parametrize(
    ("kind", "device", "said"),
    [
        (torch.float16, DEVICE, "the workspace is for torch.float16"),
        (torch.bfloat16, DEVICE, "the workspace is for torch.bfloat16"),
        (torch.float32, "meta", "the workspace is for torch.float32 on meta"),
    ],
)
def test_a_workspace_of_another_dtype_or_device_is_refused(
    kind: torch.dtype, device: str, said: str
) -> None:
    shape = Shape(10, 2, 4, 32, 16)
    workspace = reserve(shape, SMALL, kind, device)

    with pytest.raises(ValueError, match=said):
        operands(shape).run(workspace=workspace)


@pytest.mark.parametrize("name", ["x", "w13", "w2", "ids", "weights", "out"])
def test_every_operand_must_lie_on_the_device_of_x(name: str) -> None:
    given_operands = operands(Shape(10, 2, 4, 32, 16))
    call = {
        "x": given_operands.x, "w13": given_operands.w13, "w2": given_operands.w2,
        "ids": given_operands.routing.ids, "weights": given_operands.routing.weights,
        "out": torch.empty_like(given_operands.x),
    }  # fmt: skip

    with pytest.raises(ValueError, match=r"on different devices|`out` must be"):
        moe(**(call | {name: call[name].to("meta")}), config=SMALL)  # type: ignore[arg-type]


def test_without_any_choice_nothing_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither path: the Hopper one has no work item then, and would write nothing."""
    monkeypatch.setattr(layer, "build", None)
    given_operands = operands(Shape(10, 2, 4, 32, 16))
    none = Routing(given_operands.routing.ids[:, :0], given_operands.routing.weights[:, :0])

    out = Operands(given_operands.x, given_operands.w13, given_operands.w2, none).run()

    assert not out.any()


def test_every_launch_is_made_on_the_device_of_x(monkeypatch: pytest.MonkeyPatch) -> None:
    given_operands = operands(Shape(10, 2, 4, 32, 16))
    events = []

    @contextmanager
    def watched(device: torch.device) -> Iterator[None]:
        events.append(f"enter {device.type}")
        yield
        events.append("leave")

    monkeypatch.setattr(layer, "on_device", watched)
    monkeypatch.setattr(layer, "build", lambda *of: events.append("build"))
    monkeypatch.setattr(layer.portable, "run", lambda *of: events.append("run"))

    given_operands.run()

    assert events == [f"enter {torch.device(DEVICE).type}", "build", "run", "leave"]


@pytest.mark.parametrize(("current", "made"), [(0, [torch.device("cuda:1")]), (1, [])])
def test_the_device_is_made_current_where_it_is_not(
    current: int, made: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def device(one: torch.device) -> AbstractContextManager[None]:
        asked.append(one)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.setattr(torch.cuda, "device", device)

    with layer.on_device(torch.device("cuda:1")), layer.on_device(torch.device("cpu")):
        pass

    assert asked == made


def off_by_one_element(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, contiguous, at an address that only the element's size divides."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape).copy_(tensor)


@pytest.mark.parametrize("moved", ["x", "w13", "w2"])
def test_operands_that_begin_anywhere_go_the_portable_way(
    moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operands_module, "lacks_hopper", lambda device: None)
    given_operands = operands(Shape(10, 2, 4, 64, 64), dtype=torch.bfloat16)
    call = {"x": given_operands.x, "w13": given_operands.w13, "w2": given_operands.w2}
    assert suits_hopper(**call) is None
    call[moved] = off_by_one_element(call[moved])

    chosen = layer.chosen_config(Shape(10, 2, 4, 64, 64), **call)

    assert suits_hopper(**call) == "an operand begins at no multiple of 16 bytes"
    assert isinstance(chosen, PortableConfig)
    routing = given_operands.routing
    with pytest.raises(ValueError, match="cannot run this: an operand begins at no multiple"):
        moe(**call, ids=routing.ids, weights=routing.weights, config=HopperConfig())
