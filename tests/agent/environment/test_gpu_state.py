from __future__ import annotations

import platform
import time

import pytest

from orchestrator.agent.environment import ProbeError, gpu_state, gpu_state_text, visible_gpus
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import SLACK_S, FakeHost, fixture_text

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux", reason="the number of GPUs is only established on Linux"
)


@pytest.fixture
def here(fake_host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """The fake host in the place of this one."""
    monkeypatch.setattr(
        gpu_state.Surroundings, "here", staticmethod(lambda path="": fake_host.surroundings)
    )
    return fake_host


def test_without_a_gpu_there_is_nothing_to_say_and_nothing_to_lend(here: FakeHost) -> None:
    assert gpu_state_text(5) == ""
    assert visible_gpus(5) == []


def test_the_gpus_a_lease_can_choose_from(here: FakeHost) -> None:
    here.printing("nvidia-smi", {"-q -x": fixture_text("nvidia-smi/xml/rtx-4000-sff-ada-v13.xml")})

    assert visible_gpus(10) == [
        {
            "index": 0,
            "uuid": "GPU-00000000-0000-0000-0000-000000000010",
            "name": "NVIDIA RTX 4000 SFF Ada Generation",
            "memory_total": 20475 << 20,
            "memory_used": 3534 << 20,
            "foreign_pids": [1842, 3190, 4937, 34626],
        }
    ]


def test_processes_nobody_can_see_are_none_and_not_an_empty_list(here: FakeHost) -> None:
    document = fixture_text("nvidia-smi/xml/rtx-3080-v13.xml")
    here.printing("nvidia-smi", {"-q -x": document})

    (gpu,) = visible_gpus(10)

    assert gpu["memory_used"] == 9184 << 20
    assert gpu["foreign_pids"] is None


def test_a_gpu_nobody_tells_of_is_an_error_and_not_an_empty_list(here: FakeHost) -> None:
    here.file("/dev/nvidia0")

    with pytest.raises(ProbeError, match="could not be listed"):
        visible_gpus(5)


def test_a_hanging_tool_is_an_error_in_time(here: FakeHost) -> None:
    here.tool("nvidia-smi", "trap '' TERM; while :; do sleep 60; done")
    started = time.monotonic()

    with pytest.raises(ProbeError, match="did not answer within"):
        visible_gpus(1)

    assert time.monotonic() - started < 1 + SLACK_S


def test_the_text_for_a_log_tells_use_memory_and_processes(here: FakeHost) -> None:
    here.printing("nvidia-smi", {"-q -x": fixture_text("nvidia-smi/xml/rtx-4000-sff-ada-v13.xml")})

    lines = gpu_state_text(10).splitlines()

    assert lines[0] == (
        "GPU 0 NVIDIA RTX 4000 SFF Ada Generation: 0 % busy, 3.5 of 20.0 GiB in use, 210 MHz, "
        "8.44 W, 38 C; clocks held by gpu_idle"
    )
    assert "  process 4937 python: 0.16 GiB" in lines


def test_what_is_not_known_is_a_question_mark_and_not_zero(here: FakeHost) -> None:
    here.printing("nvidia-smi", {"-q -x": fixture_text("nvidia-smi/xml/a100-sxm4-v12.xml")})

    assert "? % busy, 0.0 of 80.0 GiB in use" in gpu_state_text(10)


def test_a_gpu_that_does_not_answer_is_said_in_the_log(here: FakeHost) -> None:
    here.file("/dev/nvidiactl")

    text = gpu_state_text(5)

    assert text.startswith("GPU state: not known: ")
    assert text.endswith("\n")


def test_this_host_answers_in_time() -> None:
    started = time.monotonic()

    text = gpu_state_text(5)

    assert time.monotonic() - started < 5 + SLACK_S
    assert (text == "") == (not gpu_state.gpus.traces_of(Surroundings.here()))
