"""A stand-in for `pynvml`: two GPUs that answer everything, and ways to make them fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

GIB = 1 << 30
MIB = 1 << 20

NAMES = {
    3: "Not Supported",
    4: "Insufficient Permissions",
    13: "Function Not Found",
    15: "GPU is lost",
    18: "RM has detected an NVML/RM version mismatch.",
    999: "Unknown Error",
}


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return NAMES.get(self.value, f"NVML error {self.value}")


class NVMLLibraryMismatchError(Exception):
    pass


def process(pid: int, memory: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


class FakeNvml:
    """`failures[name]` is raised by the call of that name; names in `absent` do not exist."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 0x02000028  # noqa: N815  the names are NVML's

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = gpus
        self.failures: dict[str, BaseException] = {}
        self.absent: set[str] = set()
        self.values: dict[str, Any] = {}
        self.fields: dict[int, tuple[int, str, int]] = {
            82: (1, "uiVal", 36),
            185: (1, "uiVal", 118720),
            186: (1, "uiVal", 81320),
            74: (3, "ullVal", 5000),
            76: (3, "ullVal", 0),
            269: (3, "ullVal", 7000),
            270: (3, "ullVal", 0),
            271: (3, "ullVal", 0),
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.absent:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            if name in self.failures:
                raise self.failures[name]
            if name in self.values:
                value = self.values[name]
                return value(*arguments) if callable(value) else value
            return getattr(self, f"_{name}")(*arguments)

        return call

    def _nvmlInit(self) -> None:  # noqa: N802  the names are NVML's
        return None

    def _nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.159.04"

    def _nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 13000

    def _nvmlSystemGetNVMLVersion(self) -> bytes:  # noqa: N802
        return b"13.580.159.04"

    def _nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.gpus

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"handle {index}"

    def _nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return f"GPU-{handle[-1]}"

    def _nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 0) -> SimpleNamespace:  # noqa: N802
        reserved = {"reserved": 616 * MIB} if version else {}
        return SimpleNamespace(total=140 * GIB, used=0, **reserved)

    def _nvmlDeviceGetFieldValues(self, handle: str, ids: list[int]) -> list[SimpleNamespace]:  # noqa: N802
        answers = []
        for number in ids:
            kind, member, value = self.fields.get(number, (0, "", -1))
            found = number in self.fields
            answers.append(
                SimpleNamespace(
                    nvmlReturn=0 if found else 3,
                    valueType=kind,
                    value=SimpleNamespace(**({member: value} if found else {})),
                )
            )
        return answers

    def _nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:  # noqa: N802
        if link >= 18:
            raise NVMLError(2)
        return 1 if link != 3 else 0

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        if index >= 2:
            raise NVMLError(6)
        return f"mig {index}"


SIMPLE: dict[str, Any] = {
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:00:06.0"),
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetNumGpuCores": 16896,
    "nvmlDeviceGetVbiosVersion": "96.00.A5.00.1A",
    "nvmlDeviceGetGspFirmwareVersion": b"580.159.04",
    "nvmlDeviceGetMemoryBusWidth": 6144,
    "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 525, 2: 3201}[kind],
    "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind],
    "nvmlDeviceGetApplicationsClock": lambda handle, kind: {0: 1980, 2: 3201}[kind],
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
    "nvmlDeviceGetPowerManagementLimitConstraints": [200000, 700000],
    "nvmlDeviceGetPowerUsage": 118720,
    "nvmlDeviceGetTotalEnergyConsumption": 123456789,
    "nvmlDeviceGetTemperature": 34,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetPcieReplayCounter": 0,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
    "nvmlDeviceGetCurrentClocksEventReasons": 0x1,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x1,
    "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
    "nvmlDeviceGetMaxMigDeviceCount": 7,
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlDeviceGetGraphicsRunningProcesses": [],
    "nvmlSystemGetProcessName": "/usr/bin/python3",
}


def healthy(gpus: int = 2) -> FakeNvml:
    fake = FakeNvml(gpus)
    fake.values.update(SIMPLE)
    return fake
