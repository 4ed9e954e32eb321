from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight import guard

torch = pytest.importorskip("torch", reason="the guards watch torch")

GUARD = Path(guard.__file__)


@pytest.fixture
def meta_by_default():
    """A default device that is not the CPU and needs no hardware."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def run_python(folder: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the agent does on a host: guard.py copied, sitecustomize on the path."""
    (folder / "preflight_guard.py").write_bytes(GUARD.read_bytes())
    (folder / "sitecustomize.py").write_text(
        "import preflight_guard\npreflight_guard.activate_from_env()\n", "utf-8"
    )
    (folder / "step.py").write_text(code, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder), **variables}
    environment.pop("PYTHONWARNINGS", None)
    return subprocess.run(
        [sys.executable, str(folder / "step.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_factories_are_those_torch_gives_the_default_device_to() -> None:
    from torch.utils._device import _device_constructors

    known = {function.__name__ for function in _device_constructors()}

    assert known <= guard._SHORT_FACTORIES


def test_implicit_device_is_caught_with_its_line(meta_by_default: None) -> None:
    with guard.ImplicitDeviceGuard() as watch:
        torch.zeros(4)
        torch.tensor([1, 2])

    assert [item.message for item in watch.caught] == [
        "`torch.zeros` without `device=` made a tensor on `meta`",
        "`torch.tensor` without `device=` made a tensor on `meta`",
    ]
    assert watch.caught[0].place.startswith(__file__)


def test_default_device_set_later_is_caught_too() -> None:
    with guard.ImplicitDeviceGuard() as watch:
        torch.set_default_device("meta")
        torch.ones(2)
        torch.set_default_device(None)

    assert len(watch.caught) == 1


def test_named_devices_and_the_cpu_are_left_alone(meta_by_default: None) -> None:
    with guard.ImplicitDeviceGuard() as watch:
        like = torch.zeros(4, device="cpu")
        torch.zeros_like(like)
        like.new_zeros(3)
        torch.as_tensor(like)
        torch.set_default_device("cpu")
        torch.zeros(4)

    assert watch.caught == []


def test_stores_of_single_elements_are_counted(meta_by_default: None) -> None:
    with guard.ImplicitDeviceGuard() as watch:
        table = torch.zeros(8)
        for index in range(5):
            table[index] = index

    stores = watch.caught[-1]
    assert stores.count == 5
    assert "(5 times)" in str(stores)
    assert 'write `device="cpu"`' in str(stores)


def test_mode_raise_raises_at_the_call(meta_by_default: None) -> None:
    with (
        guard.ImplicitDeviceGuard("raise"),
        pytest.raises(guard.GuardViolation, match=r"torch\.eye"),
    ):
        torch.eye(2)


def test_compiled_function_stays_whole_under_a_guard() -> None:
    with guard.ImplicitDeviceGuard() as watch:
        compiled = torch.compile(lambda x: torch.zeros(3) + x, backend="eager", fullgraph=True)
        result = compiled(torch.ones(3))

    assert result.tolist() == [1.0, 1.0, 1.0]
    assert watch.caught == []


def test_read_of_unwritten_memory_is_caught() -> None:
    with guard.UninitialisedOutputGuard() as watch:
        out = torch.empty(8)
        out[:6] = 1.0
        out.tolist()

    (item,) = watch.caught
    assert item.message.startswith("2 of 8 elements were read and never written")


def test_fully_written_output_and_computed_nan_are_left_alone() -> None:
    with guard.UninitialisedOutputGuard() as watch:
        out = torch.empty(8)
        out.copy_(torch.arange(8.0))
        out.tolist()
        (torch.zeros(3) / torch.zeros(3)).tolist()
        torch.empty(3, dtype=torch.int32).tolist()

    assert watch.caught == []


def test_constant_benchmark_input_is_caught() -> None:
    watch = guard.BenchInputGuard()
    watch.check(a=torch.zeros(16), b=torch.randn(16), index=torch.zeros(16, dtype=torch.int32))

    assert [item.message for item in watch.caught] == ["input `a` is 0 everywhere"]


def test_do_bench_is_watched_when_triton_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    testing = types.ModuleType("triton.testing")
    testing.do_bench = lambda fn, **_: fn()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton.testing", testing)
    a, b, out = torch.ones(8), torch.randn(8), torch.zeros(8)

    with guard.BenchInputGuard() as watch:
        testing.do_bench(lambda: torch.mul(a, b, out=out))
    testing.do_bench(lambda: torch.mul(a, b, out=out))

    assert [item.message for item in watch.caught] == ["input `a` is 1 everywhere"]


def test_clock_read_while_the_gpu_works_is_caught() -> None:
    with guard.SyncGuard(pending=lambda: True) as watch:
        start = time.perf_counter()
        time.perf_counter() - start

    (item,) = watch.caught
    assert item.place.startswith(__file__)
    assert "is read while the GPU is still at work" in item.message


def test_clock_read_after_the_work_is_left_alone() -> None:
    with guard.SyncGuard(pending=lambda: False) as watch:
        start = time.perf_counter()
        time.perf_counter() - start

    assert watch.caught == []
    assert time.perf_counter.__module__ == "time"


def test_cache_of_an_earlier_run_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kernel.cubin").write_bytes(b"x")
    for variable in guard._CACHE_VARIABLES.split():
        # torch.compile sets one of them for the whole process, which other tests share.
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "old"))
    monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "absent"))

    with guard.CacheGuard() as watch:
        pass

    assert [i.message for i in watch.caught] == [
        "`TRITON_CACHE_DIR` holds 1 files from before this run"
    ]


def test_content_key_changes_with_everything_that_matters(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("a", "utf-8")
    base = guard.content_key([str(source)], ["-O3"], "nvcc 13", "sm_90")

    others = [
        guard.content_key([str(source)], ["-O2"], "nvcc 13", "sm_90"),
        guard.content_key([str(source)], ["-O3"], "nvcc 12", "sm_90"),
        guard.content_key([str(source)], ["-O3"], "nvcc 13", "sm_100"),
    ]
    source.write_text("b", "utf-8")
    others.append(guard.content_key([str(source)], ["-O3"], "nvcc 13", "sm_90"))

    assert len({base, *others}) == 5


def test_without_the_variable_nothing_is_armed(tmp_path: Path) -> None:
    result = run_python(tmp_path, "import sys\nprint([type(f).__name__ for f in sys.meta_path])\n")

    assert result.returncode == 0
    assert "_AfterImport" not in result.stdout


def test_program_without_torch_pays_nothing_and_passes(tmp_path: Path) -> None:
    code = "import sys\nprint('torch' in sys.modules)\n"

    result = run_python(tmp_path, code, ORCH_GUARDS="implicit-device,sync")

    assert (result.returncode, result.stdout) == (0, "False\n")


def test_caught_pitfall_fails_the_step(tmp_path: Path) -> None:
    code = 'import torch\ntorch.set_default_device("meta")\ntorch.zeros(3)\nprint("done")\n'

    failed = run_python(tmp_path, code, ORCH_GUARDS="implicit-device")
    told = run_python(tmp_path, code, ORCH_GUARDS="implicit-device", ORCH_GUARD_MODE="report")

    assert failed.returncode == guard.GUARD_EXIT
    assert failed.stdout == told.stdout == "done\n"
    assert "step.py:3: error[implicit-device] `torch.zeros`" in failed.stderr
    assert told.returncode == 0
    assert failed.stderr == told.stderr


def test_misspelt_guard_does_not_look_like_a_pass(tmp_path: Path) -> None:
    result = run_python(tmp_path, "print(1)\n", ORCH_GUARDS="implicit-devise")

    assert "there is no guard `implicit-devise`" in result.stderr


def test_guard_file_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "preflight_guard.py").write_bytes(GUARD.read_bytes())

    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import preflight_guard"

    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 0, result.stderr
