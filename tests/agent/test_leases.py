"""Whole GPUs for one job at a time: never one that somebody else uses, or may use."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import leases
from orchestrator.agent.leases import NoGpu, leased

ROOT = Path(__file__).resolve().parent.parent.parent
GIB = 1 << 30


def gpu(index: int, pids: Sequence[int | None] | None = None, **more: Any) -> dict[str, Any]:
    """A GPU as `environment.visible_gpus` lists it, free unless told otherwise."""
    facts = {
        "index": index,
        "uuid": f"GPU-{index}{index}",
        "name": "H200",
        "memory_total": 140 * GIB,
        "memory_used": 0,
        "foreign_pids": [] if pids is None else pids,
    }
    return {**facts, **more}


class Host:
    """A directory of locks and a list of GPUs."""

    def __init__(self, folder: Path, *gpus: dict[str, Any]) -> None:
        self.folder = folder
        self.gpus = list(gpus)

    def lease(
        self,
        count: int,
        *,
        wait_s: float = 0.0,
        cancelled: Callable[[], bool] = lambda: False,
        listing: Callable[[], Any] | None = None,
    ) -> Any:
        listed = listing or (lambda: self.gpus)
        return leased(count, str(self.folder), "run-1 step", listed, wait_s, cancelled)

    def refusal(self, count: int, **more: Any) -> str:
        with pytest.raises(NoGpu) as caught, self.lease(count, **more):
            pass
        return str(caught.value)


@contextmanager
def another_process_holds(folder: Path, uuid: str) -> Iterator[None]:
    program = """
import sys
from orchestrator.agent.leases import leased
gpu = {"index": 0, "uuid": sys.argv[2], "memory_used": 0, "foreign_pids": []}
with leased(1, sys.argv[1], "run-other sweep[n=1]", lambda: [gpu], 1, lambda: False):
    print("held", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder), uuid],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate(timeout=30)


class TestTaking:
    def test_as_many_as_wanted_in_the_order_listed(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0), gpu(1), gpu(2))

        with host.lease(2) as taken:
            assert [one["index"] for one in taken] == [0, 1]

    def test_none_wanted_asks_nobody(self, tmp_path: Path) -> None:
        def must_not_be_asked() -> list[Any]:
            raise AssertionError("no GPU was wanted")

        with Host(tmp_path).lease(0, listing=must_not_be_asked) as taken:
            assert taken == []

    def test_a_lease_within_a_lease_gets_another_one(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0), gpu(1))

        with host.lease(1) as one, host.lease(1) as other:
            assert [one[0]["index"], other[0]["index"]] == [0, 1]

    def test_a_gpu_is_free_again_afterwards_even_after_a_failure(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0))

        def fail() -> None:
            with host.lease(1):
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        with host.lease(1) as taken:
            assert len(taken) == 1

    def test_who_holds_it_stands_beside_the_lock(self, tmp_path: Path) -> None:
        with Host(tmp_path, gpu(0)).lease(1):
            (lock,) = tmp_path.iterdir()

            told = json.loads(lock.read_text("utf-8"))

        assert lock.name == "GPU-00.lock"
        assert told["holder"] == "run-1 step"

    def test_a_gpu_without_a_uuid_is_leased_by_its_number(self, tmp_path: Path) -> None:
        with Host(tmp_path, gpu(3, uuid=None)).lease(1) as taken:
            assert taken[0]["index"] == 3
            assert [p.name for p in tmp_path.iterdir()] == ["index-3.lock"]

    def test_a_uuid_is_no_path(self, tmp_path: Path) -> None:
        folder = tmp_path / "leases"
        folder.mkdir()

        with Host(folder, gpu(0, uuid="../../evil")).lease(1):
            assert [p.name for p in tmp_path.iterdir()] == ["leases"]


class TestOthers:
    def test_a_gpu_that_another_run_holds_is_passed_over(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0), gpu(1))

        with another_process_holds(tmp_path, "GPU-00"), host.lease(1) as taken:
            assert taken[0]["index"] == 1

    def test_who_holds_it_is_told(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0))

        with another_process_holds(tmp_path, "GPU-00"):
            said = host.refusal(1)

        assert said == ("no free GPU within 0 s: GPU 0 is leased by run-other sweep[n=1]")

    def test_it_is_waited_for(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0))
        looks: list[float] = []

        def listing() -> list[dict[str, Any]]:
            looks.append(time.monotonic())
            return [gpu(0, [4711] if len(looks) < 3 else [])]

        with host.lease(1, wait_s=30, listing=listing) as taken:
            assert taken[0]["index"] == 0
        assert len(looks) == 3

    def test_processes_of_strangers_keep_it_from_us(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0, [17, 4]), gpu(1))

        with host.lease(1) as taken:
            assert taken[0]["index"] == 1
        assert host.refusal(2) == "no 2 free GPUs within 0 s: GPU 0 is used by processes 17, 4"

    def test_a_process_whose_number_is_hidden_does_too(self, tmp_path: Path) -> None:
        said = Host(tmp_path, gpu(0, [None, 5])).refusal(1)

        assert "GPU 0 is used by processes 5, unknown" in said

    @pytest.mark.parametrize("memory_used", [None, 300 << 20, 100 * GIB])
    def test_unknown_processes_keep_it_from_us_when_memory_is_in_use_or_unknown(
        self, tmp_path: Path, memory_used: int | None
    ) -> None:
        host = Host(tmp_path, gpu(0, foreign_pids=None, memory_used=memory_used))

        assert "nobody can tell who uses GPU 0 (" in host.refusal(1)

    def test_unknown_processes_on_an_empty_gpu_do_not(self, tmp_path: Path) -> None:
        """A CUDA context alone holds more memory than that."""
        host = Host(tmp_path, gpu(0, foreign_pids=None, memory_used=5 << 20))

        with host.lease(1) as taken:
            assert taken[0]["index"] == 0

    def test_a_lock_that_names_nobody(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0))
        with another_process_holds(tmp_path, "GPU-00"):
            (tmp_path / "GPU-00.lock").write_text("rubbish", "ascii")

            assert "somebody who left no name" in host.refusal(1)


class TestRefusals:
    def test_more_than_the_host_has(self, tmp_path: Path) -> None:
        said = Host(tmp_path, gpu(0)).refusal(2, wait_s=60)

        assert said == "the step wants 2 GPUs, this host shows 1"

    def test_a_host_without_gpus(self, tmp_path: Path) -> None:
        assert Host(tmp_path).refusal(1) == "the step wants 1 GPU, this host shows none"

    def test_a_cancelled_run_does_not_wait(self, tmp_path: Path) -> None:
        host = Host(tmp_path, gpu(0, [1]))
        begun = time.monotonic()

        said = host.refusal(1, wait_s=60, cancelled=lambda: True)

        assert time.monotonic() - begun < 5
        assert said == "the run was cancelled while it waited for a GPU"

    def test_a_listing_that_fails_is_told_at_once(self, tmp_path: Path) -> None:
        def listing() -> list[Any]:
            raise NoGpu("the GPUs of this host could not be listed: the driver hangs")

        assert "the driver hangs" in Host(tmp_path).refusal(1, wait_s=60, listing=listing)


class TestVariables:
    def test_nvidia_is_told_by_uuid(self) -> None:
        uuid = "GPU-7f0c1e2a-1111-2222-3333-444455556666"

        assert leases.variables([gpu(2, uuid=uuid)], {}) == {"CUDA_VISIBLE_DEVICES": uuid}

    def test_a_mig_slice_too(self) -> None:
        uuid = "MIG-7f0c1e2a-1111-2222-3333-444455556666"

        assert leases.variables([gpu(0, uuid=uuid)], {}) == {"CUDA_VISIBLE_DEVICES": uuid}

    @pytest.mark.parametrize("uuid", ["4eff74a0-0000-1000-80d8-56dbd33d0327", "0x1234", None])
    def test_others_by_their_number(self, uuid: str | None) -> None:
        """ROCm reads CUDA_VISIBLE_DEVICES too, and finds no device under a strange name."""
        both = [gpu(1, uuid=uuid), gpu(3, uuid=uuid)]

        assert leases.variables(both, {}) == {"HIP_VISIBLE_DEVICES": "1,3"}

    def test_others_among_those_that_their_runtime_sees(self) -> None:
        """HIP counts from 0 what ROCR_VISIBLE_DEVICES leaves, so both are told."""
        both = [gpu(1, uuid=None), gpu(3, uuid=None)]

        assert leases.variables(both, {"ROCR_VISIBLE_DEVICES": "1,2,3"}) == {
            "ROCR_VISIBLE_DEVICES": "1,3",
            "HIP_VISIBLE_DEVICES": "0,1",
        }

    def test_none_without_a_gpu(self) -> None:
        assert leases.variables([], {}) == leases.indices([]) == {}

    def test_numbers_are_told_beside_but_not_of_a_slice(self) -> None:
        whole, slice_ = "GPU-7f0c1e2a-1111-2222-3333-444455556666", "MIG-7f0c1e2a"

        assert leases.indices([gpu(3, uuid=whole), gpu(1)]) == {"ORCH_GPU_INDICES": "3,1"}
        assert leases.indices([gpu(3, uuid=whole), gpu(0, uuid=slice_)]) == {}
