"""The guards on a real GPU; elsewhere every test here is skipped and says so."""

from __future__ import annotations

import time

import pytest

from preflight import guard

torch = pytest.importorskip("torch", reason="the guards watch torch")

if not torch.cuda.is_available():
    pytest.skip("no CUDA GPU here", allow_module_level=True)

SIZE = 8192


def multiply(a: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        a = a @ a
    return a


def test_clock_read_while_a_matrix_product_runs_is_caught() -> None:
    a = torch.randn(SIZE, SIZE, device="cuda")
    torch.cuda.synchronize()

    with guard.SyncGuard() as watch:
        start = time.perf_counter()
        multiply(a)
        # preflight: ignore[timing-without-sync] -- what the guard must catch
        time.perf_counter() - start

    assert len(watch.caught) == 1


def test_clock_read_after_a_synchronisation_is_left_alone() -> None:
    a = torch.randn(SIZE, SIZE, device="cuda")
    torch.cuda.synchronize()

    with guard.SyncGuard() as watch:
        start = time.perf_counter()
        multiply(a)
        torch.cuda.synchronize()
        time.perf_counter() - start

    assert watch.caught == []


def test_capture_of_a_graph_is_not_disturbed() -> None:
    a = torch.randn(256, 256, device="cuda")
    a @ a
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    with guard.SyncGuard() as watch, torch.cuda.graph(graph):
        time.perf_counter()
        a @ a
        time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()

    assert watch.caught == []


def test_default_device_on_the_gpu_is_caught() -> None:
    torch.set_default_device("cuda")
    try:
        with guard.ImplicitDeviceGuard() as watch:
            table = torch.zeros(4)
            table[1] = 2
    finally:
        torch.set_default_device(None)

    assert [item.message for item in watch.caught] == [
        "`torch.zeros` without `device=` made a tensor on `cuda`",
        "one element is stored into a tensor that a default device placed",
    ]


def test_constant_inputs_of_do_bench_are_caught() -> None:
    testing = pytest.importorskip("triton.testing")
    a = torch.zeros(256, 256, device="cuda")
    b = torch.randn(256, 256, device="cuda")

    with guard.BenchInputGuard() as watch:
        testing.do_bench(lambda: b @ b + a)

    assert [item.message for item in watch.caught] == ["input `a` is 0 everywhere"]
