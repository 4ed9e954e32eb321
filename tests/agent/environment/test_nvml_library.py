from __future__ import annotations

import pytest

from orchestrator.agent.environment.nvml_library import Library

from .fake_pynvml import FakeNvml, NVMLError, NVMLLibraryMismatchError, healthy


def library(call: str, failure: BaseException | None = None, **values: object) -> Library:
    fake = healthy()
    fake.values.update(values)
    if failure is not None:
        fake.failures[call] = failure
    return Library(fake)


@pytest.mark.parametrize(
    ("failure", "state", "said"),
    [
        (NVMLError(3), "not_applicable", "Not Supported"),
        (NVMLError(4), "unknown", "Insufficient Permissions"),
        (NVMLError(13), "unknown", "Function Not Found"),
        (NVMLLibraryMismatchError("pyNVML does not match"), "unknown", "does not match"),
        (NVMLError(15), "error", "GPU is lost"),
        (NVMLError(18), "error", "version mismatch"),
        (NVMLError(999), "error", "Unknown Error"),
        (OSError("libnvidia-ml.so.1"), "error", "libnvidia-ml.so.1"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "error", "UnicodeDecodeError"),
    ],
)
def test_every_failure_of_a_call_is_a_state_with_its_reason(
    failure: BaseException, state: str, said: str
) -> None:
    reading = library("nvmlDeviceGetTemperature", failure).get(
        "nvmlDeviceGetTemperature", "handle", 0
    )

    assert (reading.state, reading.value) == (state, None)
    assert said in reading.detail
    assert reading.source == "NVML nvmlDeviceGetTemperature"


def test_a_call_an_old_pynvml_does_not_have_is_unknown() -> None:
    fake = healthy()
    fake.absent.add("nvmlDeviceGetNumGpuCores")

    reading = Library(fake).get("nvmlDeviceGetNumGpuCores", "handle")

    assert reading.state == "unknown"
    assert reading.detail == "this version of pynvml does not know the call"


@pytest.mark.parametrize("nothing", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, None])
def test_nvmls_own_word_for_nothing_is_no_value(nothing: object) -> None:
    reading = library("", nvmlDeviceGetTemperature=nothing).get("nvmlDeviceGetTemperature", "h", 0)

    assert reading.state == "unknown"


def test_zero_is_a_value() -> None:
    assert (
        library("", nvmlDeviceGetTemperature=0).get("nvmlDeviceGetTemperature", "h", 0).value == 0
    )


def test_a_field_is_read_by_its_number_and_type() -> None:
    assert Library(FakeNvml()).field("handle", 269).value == 7000


def test_a_field_the_device_does_not_have_is_not_applicable() -> None:
    reading = Library(FakeNvml()).field("handle", 4711)

    assert (reading.state, reading.detail) == ("not_applicable", "Not Supported")


def test_a_field_without_a_value_is_unknown() -> None:
    fake = FakeNvml()
    fake.fields[82] = (1, "uiVal", 0xFFFFFFFF)

    assert Library(fake).field("handle", 82).state == "unknown"
