"""Other projects' layers: what is missing, what fails, and our parts of an adapter, interpreted.

The projects themselves need a GPU and are not installed here.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton has no build for this platform")

import torch
import triton
import triton.language as tl

from kernels.backend import BACKEND
from kernels.moe import bench, peer_sglang, peer_triton_kernels, peers
from kernels.moe.peers import FailedError, Peer, UnavailableError, ready
from kernels.moe.problem import draw_problem
from kernels.moe.reference import moe_reference
from kernels.moe.shapes import Shape
from kernels.timing import ceilings

SHAPE = Shape(tokens=5, top_k=2, experts=40, hidden=64, inter=32)


@triton.jit
def pairs_kernel(x_ptr, y_ptr, rows: tl.constexpr, pairs: tl.constexpr):
    row = tl.arange(0, rows)[:, None]
    tile = tl.load(x_ptr + row * pairs * 2 + tl.arange(0, pairs * 2)[None, :])
    hidden = peer_triton_kernels.silu_of_pairs(tile)
    tl.store(y_ptr + row * pairs + tl.arange(0, pairs)[None, :], hidden)


@pytest.fixture
def problem() -> Any:
    return draw_problem(SHAPE, "uniform", torch.bfloat16, 0)


def test_pairs_of_columns_become_silu_of_the_gate_times_up() -> None:
    x = torch.randn(4, 16, device=BACKEND.device)
    y = torch.full((4, 8), float("nan"), device=BACKEND.device)

    pairs_kernel[(1,)](x, y, 4, 8)

    torch.testing.assert_close(y, torch.nn.functional.silu(x[:, 0::2]) * x[:, 1::2])


def test_chosen_experts_become_bits(problem: Any) -> None:
    bits = torch.full((SHAPE.tokens, 2), -1, dtype=torch.int32, device=BACKEND.device)

    peer_triton_kernels.pack_kernel[(SHAPE.tokens,)](problem.ids, bits, 2, TOP_K=2, WORDS=2)

    for token, words in enumerate(bits.tolist()):
        held = {32 * w + b for w in range(2) for b in range(32) if words[w] >> b & 1}
        assert held == set(problem.ids[token].tolist())


def test_bits_of_a_token_stay_in_its_words() -> None:
    """96 experts are three words, where the kernel's vector has four."""
    ids = torch.tensor([[95, 0], [31, 64], [32, 63]], device=BACKEND.device)
    bits = torch.zeros((3, 3), dtype=torch.int32, device=BACKEND.device)

    for token in (2, 1, 0):  # a word too many would be the next token's, written before
        peer_triton_kernels.pack_kernel[(1,)](ids[token], bits[token], 3, TOP_K=2, WORDS=4)

    held = [
        {32 * w + b for w in range(3) for b in range(32) if words[w] >> b & 1}
        for words in bits.tolist()
    ]
    assert held == [set(row) for row in ids.tolist()]


@pytest.mark.parametrize(
    ("held", "said"),
    [({}, "no module triton_kernels.matmul_ogs"), ({"matmul_ogs": 0}, "has no FnSpecs")],
)
def test_another_project_or_release_of_the_name_is_not_taken(
    held: dict[str, int], said: str, problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "triton_kernels", types.ModuleType("triton_kernels"))
    if held:
        module = types.ModuleType("triton_kernels.matmul_ogs")
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, "triton_kernels.matmul_ogs", module)

    with pytest.raises(UnavailableError, match=said):
        ready("triton_kernels", problem)


@dataclass
class RunnerConfig:
    """Fields of SGLang's that bear on the call, with its defaults."""

    num_experts: int | None = None
    num_local_experts: int | None = None
    activation: str = "silu"
    is_gated: bool = True
    inplace: bool = True


@pytest.fixture
def sglang_served(monkeypatch: pytest.MonkeyPatch) -> list[types.SimpleNamespace]:
    """An SGLang of the known release, its layer in float64; the server's arguments once set."""
    served: list[types.SimpleNamespace] = []

    def fused_experts(
        hidden_states: Any, w1: Any, w2: Any, topk_output: Any, moe_runner_config: RunnerConfig
    ) -> torch.Tensor:
        assert moe_runner_config == RunnerConfig(SHAPE.experts, SHAPE.experts, inplace=False)
        assert len(served) == 1
        weights, ids, _ = topk_output
        return moe_reference(hidden_states, w1, w2, ids, weights)

    runner = "sglang.srt.layers.moe.moe_runner"
    offered: dict[str, dict[str, Any]] = {
        runner: {"MoeRunnerConfig": RunnerConfig},
        f"{runner}.triton_utils.fused_moe": {"fused_experts": fused_experts},
        "sglang.srt.server_args": {
            "ServerArgs": types.SimpleNamespace,
            "set_global_server_args_for_scheduler": served.append,
        },
    }
    for name, held in offered.items():
        module = types.ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: peer_sglang.RELEASE)
    monkeypatch.setattr(peers, "_require_gpu", lambda _: None)
    return served


def test_sglang_computes_the_call_as_it_is_now(problem: Any, sglang_served: list[Any]) -> None:
    peer = ready("sglang", problem)

    problem.fresh(1)

    torch.testing.assert_close(peer.run(), problem.reference(), rtol=0, atol=0)


def test_sglang_is_told_to_serve_no_model(problem: Any, sglang_served: list[Any]) -> None:
    ready("sglang", problem)

    assert sglang_served == [types.SimpleNamespace(model_path="dummy")]


def test_another_release_of_sglang_is_refused_by_its_version(
    problem: Any, sglang_served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.5.9")

    with pytest.raises(UnavailableError, match=r"sglang 0\.5\.9 is installed, 0\.5\.13\.post1 is"):
        ready("sglang", problem)

    assert not sglang_served


def test_an_sglang_that_does_not_load_is_an_error(
    problem: Any, sglang_served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sglang.srt.layers.moe.moe_runner", None)

    with pytest.raises(FailedError, match="sglang"):
        ready("sglang", problem)


@pytest.mark.parametrize("name", ["grouped_mm", "triton_kernels"])
def test_dropped_choices_are_not_asked_of_a_peer(name: str) -> None:
    masked = draw_problem(Shape(64, 2, 8, 64, 32), "masked", torch.bfloat16, 0)

    with pytest.raises(UnavailableError, match="without dropped choices"):
        ready(name, masked)


@pytest.mark.parametrize(("told", "left"), [("3", "3"), (None, "GPU-7f0c1e2a")])
def test_vllm_is_told_of_gpus_by_number_where_the_run_knows_them(
    told: str | None, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-7f0c1e2a")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.delenv("ORCH_GPU_INDICES", raising=False)
    if told:
        monkeypatch.setenv("ORCH_GPU_INDICES", told)

    peers._name_gpus_by_number()

    assert os.environ["CUDA_VISIBLE_DEVICES"] == left
    assert (os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID") == bool(told)


def _broken(problem: Any) -> Peer:
    def run() -> Any:
        raise OSError("libother.so: not found\nsecond line")

    return Peer("eager", run)


def test_a_failing_peer_says_what_it_raised(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.ALL, "eager", _broken)

    with pytest.raises(FailedError, match=r"^OSError: libother\.so: not found$") as told:
        ready("eager", problem)

    assert isinstance(told.value.__cause__, OSError)


def _ends() -> Any:
    raise SystemExit("bye")


def _later(calls: list[int]) -> Any:
    calls.append(1)
    if len(calls) > 1:
        raise OSError("second call")
    return torch.zeros(SHAPE.tokens, SHAPE.hidden)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (_ends, "SystemExit: bye"),
        (lambda calls=[]: _later(calls), "OSError: second call"),
        (lambda: None, "it returned NoneType, not a tensor of"),
        (lambda: torch.zeros(3, 4), r"it returned \(3, 4\), not a tensor of"),
    ],
)
def test_a_peer_is_tried_twice_and_its_output_looked_at(
    run: Any, said: str, problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.ALL, "eager", lambda _: Peer("eager", run))

    with pytest.raises(FailedError, match=said):
        ready("eager", problem)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU to ask it for")
@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_peer_for_gpus_is_not_asked_for_on_a_cpu(
    name: str, problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_require_package", lambda _: "0.21.0")

    with pytest.raises(UnavailableError, match="on a GPU only"):
        ready(name, problem)


def test_a_failing_peer_is_an_error_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(peers.ALL, "bf16", _broken)

    code = bench.main(["--shape", "tiny", "--rounds", "1", "--peers", "bf16", "eager", "eager"])

    out, err = capsys.readouterr()
    told = {row["metric"]: row for row in map(json.loads, filter(_is_record, out.splitlines()))}
    assert code == 1
    assert told["e2e.bf16"]["status"] == "error"
    assert told["e2e.bf16"]["note"].startswith("OSError")
    assert told["ratio.bf16"]["note"] == told["e2e.bf16"]["note"]
    assert told["e2e"]["status"] == told["e2e.eager"]["status"] != "error"
    assert "Traceback" in err


def test_a_peer_that_breaks_the_gpu_ends_the_measurement_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setitem(peers.ALL, "eager", _broken)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda: None)

    code = bench.main(["--shape", "tiny", "--rounds", "1", "--peers", "eager"])

    said = capsys.readouterr().out
    (told,) = [json.loads(line) for line in said.splitlines() if '"e2e"' in line]
    assert code == 1
    assert "error: eager broke the GPU's context (OSError: libother.so: not found); leave" in said
    assert (told["value"], told["status"]) == (None, "error")


def _is_record(line: str) -> bool:
    return line.startswith("{")
