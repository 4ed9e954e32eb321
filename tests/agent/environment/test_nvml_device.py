from __future__ import annotations

import pytest

from orchestrator.agent.environment.catalogue import DRIVER_KEYS, GPU_KEYS
from orchestrator.agent.environment.nvml_device import driver_readings, gpu_readings
from orchestrator.agent.environment.nvml_library import Library

from .fake_pynvml import GIB, MIB, NVMLError, healthy, process


def test_the_driver_is_told_in_the_spelling_of_the_tools() -> None:
    found = driver_readings(Library(healthy()))

    assert {key: reading.value for key, reading in found.items()} == {
        "driver.version": "580.159.04",
        "driver.cuda": "13.0",
        "driver.nvml": "13.580.159.04",
        "gpu.count": 2,
    }
    assert set(found) <= set(DRIVER_KEYS)


def test_a_healthy_gpu_in_the_units_of_the_snapshot() -> None:
    found = gpu_readings(Library(healthy()), 1)

    values = {key: reading.value for key, reading in found.items()}
    assert set(values) <= set(GPU_KEYS)
    assert values["index"] == 1
    assert values["uuid"] == "GPU-1"
    assert values["pci_bus_id"] == "00000000:00:06.0"
    assert values["compute_capability"] == "9.0"
    assert values["cores"] == 16896
    assert values["memory_total"] == 140 * GIB
    assert values["memory_reserved"] == 616 * MIB
    assert (values["clock_sm"], values["clock_mem"], values["clock_sm_max"]) == (525, 3201, 1980)
    assert (values["power_draw"], values["power_draw_average"]) == (81.32, 118.72)
    assert (values["power_limit"], values["power_limit_max"]) == (700, 700)
    assert (values["ecc_mode"], values["persistence_mode"]) == ("enabled", "enabled")
    assert (values["compute_mode"], values["performance_state"]) == ("default", "P0")
    assert (values["throttle_reasons"], values["throttle_reason_names"]) == (1, ["gpu_idle"])
    assert (values["throttle_sw_power_cap"], values["throttle_sw_thermal"]) == (5000, 7000)
    assert (values["remapped_rows_pending"], values["remapped_rows_corrected"]) == (False, 0)
    assert values["nvlinks_active"] == 17
    assert values["processes"] == []


@pytest.mark.parametrize("code", [2, 3, 4, 13, 15, 18, 999])
def test_when_every_call_fails_no_field_is_a_value(code: int) -> None:
    fake = healthy()
    spared = {"nvmlDeviceGetHandleByIndex"}
    names = set(fake.values) | {"nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"}
    names |= {"nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState"}
    fake.failures = {name: NVMLError(code) for name in names - spared}

    found = gpu_readings(Library(fake), 0)

    assert {key for key, reading in found.items() if reading.known} == {"index"}
    assert all(reading.detail for key, reading in found.items() if key != "index")


def test_a_lost_gpu_is_told_by_its_handle() -> None:
    fake = healthy()
    fake.failures["nvmlDeviceGetHandleByIndex"] = NVMLError(15)

    found = gpu_readings(Library(fake), 0)

    assert found["handle"].state == "error"
    assert found["handle"].detail == "GPU is lost"


def test_a_driver_before_memory_version_2_says_that_it_counts_what_it_reserves() -> None:
    fake = healthy()

    def old(handle: str, version: int = 0) -> object:
        if version:
            raise NVMLError(13)
        return fake._nvmlDeviceGetMemoryInfo(handle)

    fake.values["nvmlDeviceGetMemoryInfo"] = old

    found = gpu_readings(Library(fake), 0)

    assert found["memory_used"].value == 0
    assert found["memory_used"].detail == "this driver counts what it reserves as used"
    assert found["memory_reserved"].state == "unknown"


def test_drivers_of_the_throttle_era_are_asked_by_their_own_name() -> None:
    fake = healthy()
    fake.failures["nvmlDeviceGetCurrentClocksEventReasons"] = NVMLError(13)
    fake.values["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0x4 | 0x20 | 0x10000

    found = gpu_readings(Library(fake), 0)

    assert found["throttle_reasons"].value == 0x10024
    assert found["throttle_reason_names"].value == [
        "sw_power_cap",
        "sw_thermal_slowdown",
        "0x10000",
    ]


def test_without_the_power_field_the_older_call_is_used() -> None:
    fake = healthy()
    del fake.fields[186]

    found = gpu_readings(Library(fake), 0)

    assert found["power_draw"].value == 118.72
    assert found["power_draw"].source == "NVML nvmlDeviceGetPowerUsage"
    assert found["power_draw"].detail == "averaged by the driver"


def test_mig_devices_are_listed_with_their_memory() -> None:
    fake = healthy()
    fake.values["nvmlDeviceGetMigMode"] = [1, 1]
    fake.values["nvmlDeviceGetName"] = lambda handle: f"H200 {handle}"
    fake.values["nvmlDeviceGetUUID"] = lambda handle: f"MIG-{handle[-1]}"

    found = gpu_readings(Library(fake), 0)

    assert found["mig_mode"].value == "enabled"
    assert found["mig_devices"].value == [
        {"name": "H200 mig 0", "uuid": "MIG-0", "memory_total": 140 * GIB},
        {"name": "H200 mig 1", "uuid": "MIG-1", "memory_total": 140 * GIB},
    ]


def test_a_process_that_computes_and_draws_is_one_process() -> None:
    fake = healthy()
    fake.values["nvmlDeviceGetComputeRunningProcesses"] = [process(7, GIB), process(8, None)]
    fake.values["nvmlDeviceGetGraphicsRunningProcesses"] = [process(7, GIB)]
    fake.values["nvmlSystemGetProcessName"] = lambda pid: f"/usr/bin/tool{pid} --token=planted"

    processes = gpu_readings(Library(fake), 0)["processes"].value

    assert processes == [
        {"pid": 7, "name": "/usr/bin/tool7", "memory": GIB, "type": "C+G"},
        {"pid": 8, "name": "/usr/bin/tool8", "memory": None, "type": "C"},
    ]


def test_a_process_whose_name_is_refused_is_still_listed() -> None:
    fake = healthy()
    fake.values["nvmlDeviceGetComputeRunningProcesses"] = [process(7, GIB)]
    fake.failures["nvmlSystemGetProcessName"] = NVMLError(4)

    assert gpu_readings(Library(fake), 0)["processes"].value[0]["name"] is None
