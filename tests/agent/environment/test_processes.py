from __future__ import annotations

import os

from orchestrator.agent.environment.field import known, not_applicable, unknown
from orchestrator.agent.environment.processes import Process, foreign, joined, program

GIB = 1 << 30


def listing(*pids: int, memory: int | None = GIB) -> list[dict[str, object]]:
    return joined(Process(pid, "python", memory, "C") for pid in pids)


def test_processes_that_are_not_ours_are_foreign() -> None:
    found = foreign(known(listing(1, 2, 3), "NVML"), known(3 * GIB, "NVML"), {2})

    assert [entry["pid"] for entry in found.value] == [1, 3]


def test_an_idle_gpu_has_no_foreign_process() -> None:
    found = foreign(known([], "NVML"), known(50 << 20, "NVML"), {2})

    assert found.value == []


def test_memory_nobody_is_listed_for_belongs_to_somebody_unseen() -> None:
    found = foreign(known([], "NVML"), known(20 * GIB, "NVML"), set())

    assert found.state == "unknown"
    assert "20480 MiB are in use by no listed process" in found.detail


def test_memory_of_our_own_processes_is_explained() -> None:
    ours = known(listing(7), "NVML")

    assert foreign(ours, known(GIB, "NVML"), {7}).value == []
    assert foreign(ours, known(30 * GIB, "NVML"), {7}).state == "unknown"


def test_where_memory_per_process_is_not_told_nothing_is_concluded_from_it() -> None:
    ours = known(listing(7, memory=None), "NVML")

    assert foreign(ours, known(30 * GIB, "NVML"), {7}).value == []


def test_processes_that_cannot_be_listed_are_not_none() -> None:
    gone = unknown("NVML", "Insufficient Permissions")

    assert foreign(gone, known(0, "NVML"), set()) == gone
    assert foreign(not_applicable("x", "y"), known(0, "x"), set()).state == "not_applicable"


def test_a_pid_of_another_container_is_said_to_be_one() -> None:
    nobody = 4194304 + 1  # above the largest pid Linux gives

    found = foreign(known(listing(nobody), "NVML"), known(GIB, "NVML"), set())

    assert found.value[0]["pid"] == nobody
    assert f"pid {nobody} is not known here" in found.detail


def test_a_nameless_process_of_this_host_gets_its_name_from_the_kernel() -> None:
    entry = joined([Process(os.getpid(), None, GIB, "C")])

    found = foreign(known(entry, "NVML"), known(GIB, "NVML"), set())

    with open(f"/proc/{os.getpid()}/comm", encoding="utf-8") as file:  # noqa: PTH123
        assert found.value[0]["name"] == file.read().strip()


def test_processes_without_a_pid_are_kept_apart_and_foreign() -> None:
    entries = joined([Process(None, "a", 1, "C"), Process(None, "b", 2, "C")])

    assert len(entries) == 2
    assert len(foreign(known(entries, "x"), known(3, "x"), {1}).value) == 2


def test_options_and_secrets_are_no_part_of_a_name() -> None:
    assert program("/opt/app/serve --token planted") == "/opt/app/serve"
    assert program("python -m vllm --api-key=planted") == "python"
    assert program("C:\\Program Files\\App X\\app.exe") == "C:\\Program Files\\App X\\app.exe"
    assert "planted" not in program("serve api_key=planted")
