from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from triton.runtime.errors import OutOfResources

from kernels.backend import BACKEND, Backend
from kernels.moe import (
    bench,
    check,
    checks,
    handover,
    layer,
    operands,
    peers,
    races,
    tune,
    workspace,
)
from kernels.moe.checks import Verdict
from kernels.timing import ceilings
from kernels.timing.ceilings import Ceilings

TINY = ["--tokens", "9", "--experts", "4", "--hidden", "32", "--inter", "16"]


def recorded(text: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["metric"]: line for line in lines}


def was_timed(row: dict[str, Any]) -> bool:
    """Whether a record holds a time: on a CPU the interpreter's, which is no kernel's."""
    if BACKEND is Backend.GPU:
        return row["status"] == "ok" and row["value"] != 0
    return row["status"] == "not_applicable" and "in the interpreter, on a CPU" in row["note"]


def test_check_passes_and_says_what_it_proves(capsys: pytest.CaptureFixture[str]) -> None:
    code = check.main([*TINY, "--repeats", "1"])

    said = capsys.readouterr().out
    told = recorded(said)
    assert code == 0
    assert BACKEND.proves in said
    assert told["backend"]["value"] == BACKEND.value
    assert told["rel_l2"]["value"] < 5e-3
    assert told["reproducible"]["value"] is True
    assert told["table_problems"]["value"] == 0


def test_check_of_block_scaled_weights_says_what_no_cpu_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = check.main([*TINY, "--dtype", "fp8", "--repeats", "1"])

    said = capsys.readouterr().out
    told = recorded(said)
    assert code == 0
    assert ("products of e4m3" in said) == (BACKEND is Backend.INTERPRETER)
    assert 0 < told["rel_l2"]["value"] < 5e-3
    assert 0.02 < told["rel_l2_unquantised"]["value"] < 0.1
    assert told["isolated"]["value"] is True


def test_check_fails_when_one_check_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Verdict("rel_l2", float("nan"), False, "relative L2 error nan")
    monkeypatch.setattr(checks, "accuracy", lambda checked: wrong)

    code = check.main([*TINY, "--repeats", "1"])

    said = capsys.readouterr().out
    assert code == 1
    assert "WRONG relative L2 error nan" in said
    assert recorded(said)["rel_l2"]["value"] is None
    assert recorded(said)["rel_l2"]["status"] == "error"


def test_bench_times_checks_and_splits(capsys: pytest.CaptureFixture[str]) -> None:
    code = bench.main([*TINY, "--rounds", "1", "--split", "--peers", "eager", "vllm"])

    said = capsys.readouterr().out
    told = recorded(said)
    assert code == 0
    assert BACKEND.proves in said
    assert was_timed(told["e2e"])
    assert len(told["e2e"]["check"]["output_sha256"]) == 64
    assert told["e2e.vllm"]["status"] == "skipped"
    assert was_timed(told["ratio.eager"])
    stages = {name for name in told if name.startswith("stage.")}
    assert all(was_timed(told[name]) for name in stages)
    assert stages >= {"stage.schedule", "stage.layer0", "stage.layer1", "stage.combine"}


def test_bench_of_block_scaled_weights_has_16_bit_peers_and_its_own_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--dtype", "fp8", "--rounds", "1", "--split", "--peers", "bf16", "eager"]

    code = bench.main([*TINY, *options])

    told = recorded(capsys.readouterr().out)
    assert code == 0
    assert told["e2e"]["check"]["rel_l2"] < 5e-3
    assert told["e2e.bf16"]["check"]["rel_l2"] < 1e-2
    assert was_timed(told["ratio.bf16"])
    assert was_timed(told["stage.quantise"])


def test_bench_gives_a_wrong_output_no_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kernels.moe import layer

    def spoilt(*operands: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
        return out.fill_(0.5)

    monkeypatch.setattr(layer, "moe", spoilt)

    code = bench.main([*TINY, "--rounds", "1", "--peers", "eager", "--split"])

    told = recorded(capsys.readouterr().out)
    assert code == 1
    assert not [metric for metric in told if metric.startswith("stage.")]
    assert told["e2e"]["value"] is None
    assert told["e2e"]["status"] == "error"
    assert was_timed(told["e2e.eager"])
    assert told["ratio.eager"]["value"] is None
    assert told["ratio.eager"]["note"] == "the output of ours is wrong"
    assert "fraction" not in told


def test_bench_compares_with_no_peer_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(problem: Any) -> peers.Peer:
        return peers.Peer("eager", lambda: torch.zeros_like(problem.x))

    monkeypatch.setitem(peers.ALL, "eager", wrong)

    code = bench.main([*TINY, "--rounds", "1", "--peers", "eager", "grouped_mm"])

    told = recorded(capsys.readouterr().out)
    assert code == 1
    assert told["e2e.eager"]["status"] == told["ratio.eager"]["status"] == "error"
    assert told["ratio.eager"]["note"] == "the output of eager is wrong"
    assert was_timed(told["ratio.grouped_mm"])


def test_a_check_that_says_nothing_of_this_call_is_told_as_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "PROVABLE_CHOICES", 1)

    code = check.main([*TINY, "--tokens", "1", "--repeats", "1"])

    said = capsys.readouterr().out
    told = recorded(said)
    assert code == 0
    assert "skip  isolated: there is no other token" in said
    assert "skip  table_problems: 2 choices: the table is proved up to 1" in said
    assert told["isolated"]["status"] == told["table_problems"]["status"] == "skipped"


@pytest.mark.parametrize(("rate", "code", "status"), [(1.0, 1, "error"), (1e30, 0, "ok")])
def test_bench_flags_a_time_below_the_floor(
    rate: float,
    code: int,
    status: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda: Ceilings(rate, rate, rate))

    assert bench.main([*TINY, "--rounds", "1", "--peers"]) == code

    said = capsys.readouterr().out
    fraction = recorded(said)["fraction"]
    assert fraction["status"] == status
    assert (fraction["value"] is None) == (status == "error")
    assert ("WRONG faster than the floor" in said) == (status == "error")


@pytest.mark.parametrize("command", [check, bench, tune, handover, races])
def test_help_says_what_the_command_is_for(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["--help"])

    said = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "python -m kernels.moe." in said
    assert "GPU" in said


@pytest.mark.skipif(BACKEND is Backend.GPU, reason="this machine has a GPU to tune for")
def test_tune_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune.main(["--shapes", "tiny"]) == 2
    assert "the backend here is" in capsys.readouterr().out


@pytest.mark.skipif(BACKEND is Backend.GPU, reason="this machine has a GPU to compile for")
def test_barriers_are_met_twice_in_a_compiled_kernel_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check.main([*TINY, "--meet-twice"]) == 2
    assert "nothing was checked" in capsys.readouterr().out


@pytest.mark.parametrize("command", [check, bench])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--top-k", "5"], "top-k 5 of 4 experts: a token cannot choose one twice"),
        (["--path", "portable", "--rows", "24"], "24 rows are not a power of two from 16 to 256"),
        (["--path", "portable", "--rows", "8"], "8 rows are not a power of two from 16 to 256"),
        (["--path", "portable", "--rows", "65536"], "65536 rows are not a power of two from 16"),
        (["--path", "portable", "--tail", "32"], "--tail belongs to the Hopper path"),
        (
            ["--path", "portable", "--late", "3", "--wide"],
            "--late and --wide belong to the Hopper path, this call goes the portable way",
        ),
        (["--tokens", "99999999999"], "no room for the operands of Shape(tokens=99999999999"),
        (["--tokens", "99999999999999999999"], "no room for the operands"),
    ],
)
def test_a_call_that_cannot_be_is_refused_in_a_line(
    command: Any, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.main([*TINY, *arguments])

    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("error: ")]
    assert code == 2
    assert said in line


@pytest.mark.parametrize("command", [check, bench])
@pytest.mark.parametrize(
    ("arguments", "lacking", "said"),
    [
        (["--dtype", "bfloat16"], None, "hidden 32 or inter 16 is no multiple of 64"),
        (["--dtype", "float32"], None, "torch.float32 is not a 16-bit type"),
        (["--hidden", "64", "--inter", "64"], "the device is not sm_90", "device is not sm_90"),
    ],
)
def test_a_hopper_variant_that_cannot_take_the_operands_is_refused_in_a_line(
    command: Any,
    arguments: list[str],
    lacking: str | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(workspace, "unsuited", lambda config, scaled: None)
    monkeypatch.setattr(operands, "lacks_hopper", lambda device: lacking)

    code = command.main([*TINY, "--path", "hopper", *arguments])

    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("error: ")]
    assert code == 2
    assert line.startswith("error: HopperConfig(")
    assert said in line


@pytest.mark.parametrize(("command", "asked"), [(check, checks), (bench, layer)])
def test_a_variant_that_does_not_fit_the_device_is_told_in_a_line(
    command: Any,
    asked: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def too_large(*operands: Any, **options: Any) -> torch.Tensor:
        raise OutOfResources(300_000, 232_448, "shared memory")

    monkeypatch.setattr(asked, "moe", too_large)

    code = command.main([*TINY, "--path", "portable", "--rows", "256", "--stages", "9"])

    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("error: ")]
    assert code == 2
    assert "PortableConfig(rows=256," in line
    assert "shared memory, Required: 300000, Hardware limit: 232448" in line


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (check, ["--tokens", "0"]),
        (check, ["--inter", "-1"]),
        (check, ["--repeats", "0"]),
        (check, ["--seed", "99999999999999999999999"]),
        (check, ["--stages", "0"]),
        (bench, ["--rounds", "0"]),
        (bench, ["--peers", "nonsense"]),
        (bench, ["--late", "-1"]),
        (tune, ["--rounds", "-1"]),
    ],
)
def test_a_number_that_means_nothing_is_refused(
    command: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)

    assert stopped.value.code == 2
    assert f"argument {arguments[0]}:" in capsys.readouterr().err


def test_bench_offers_every_peer_there_is() -> None:
    assert set(bench.PEERS) == set(peers.ALL)
