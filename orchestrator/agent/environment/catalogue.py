"""Every key a snapshot may hold: its unit, how much a difference matters, and what it means.

Keys are stable: a key is never renamed and never changes its unit. `docs/environment.md` lists the
same tables, and a test keeps the two alike.
"""

from __future__ import annotations

import re
from typing import Mapping

from orchestrator.agent.environment.field import CONDITION, IDENTITY, INFO, Spec

BYTES = "By"
CELSIUS = "Cel"
HERTZ = "MHz"
NANOSECONDS = "ns"
PERCENT = "%"
SECONDS = "s"
WATTS = "W"
NONE = ""

HOST_KEYS: Mapping[str, Spec] = {
    "host.name": Spec(NONE, INFO, "host name"),
    "host.vendor": Spec(NONE, INFO, "maker of the machine, from DMI"),
    "host.product": Spec(NONE, IDENTITY, "model of the machine, from DMI"),
    "host.hypervisor": Spec(NONE, IDENTITY, "hypervisor below the system; `none` on bare metal"),
    "host.container": Spec(NONE, CONDITION, "container the agent runs in; `none` if in none"),
    "host.boot_id": Spec(NONE, CONDITION, "changes with every boot"),
    "os.name": Spec(NONE, IDENTITY, "distribution and version"),
    "os.kernel": Spec(NONE, IDENTITY, "kernel release"),
    "os.architecture": Spec(NONE, IDENTITY, "machine architecture"),
    "os.libc": Spec(NONE, IDENTITY, "C library and version"),
    "time.utc": Spec(NONE, INFO, "host clock when the snapshot was taken, RFC 3339"),
    "time.uptime": Spec(SECONDS, INFO, "time since boot"),
    "time.clocksource": Spec(NONE, CONDITION, "what the kernel measures time with"),
}

CPU_KEYS: Mapping[str, Spec] = {
    "cpu.model": Spec(NONE, IDENTITY, "CPU model"),
    "cpu.sockets": Spec(NONE, IDENTITY, "sockets"),
    "cpu.cores": Spec(NONE, IDENTITY, "physical cores"),
    "cpu.threads": Spec(NONE, IDENTITY, "logical CPUs online"),
    "cpu.usable": Spec(NONE, CONDITION, "logical CPUs this process may use"),
    "cpu.features": Spec(NONE, IDENTITY, "vector and matrix extensions"),
    "cpu.microcode": Spec(NONE, IDENTITY, "microcode revision"),
    "cpu.frequency": Spec(HERTZ, CONDITION, "mean of the current frequencies"),
    "cpu.frequency_max": Spec(HERTZ, IDENTITY, "highest frequency the kernel allows"),
    "cpu.governor": Spec(NONE, CONDITION, "frequency governor, or all in use"),
    "cpu.boost": Spec(NONE, CONDITION, "`enabled` or `disabled`"),
    "cpu.smt": Spec(NONE, CONDITION, "simultaneous multithreading"),
    "cpu.throttle_count": Spec(NONE, CONDITION, "thermal throttle events since boot, all cores"),
    "numa.nodes": Spec(NONE, IDENTITY, "NUMA nodes"),
    "numa.cpus": Spec(NONE, IDENTITY, "CPUs of each node"),
    "numa.memory": Spec(BYTES, CONDITION, "memory of each node; some sandboxes grow it with use"),
    "numa.balancing": Spec(NONE, CONDITION, "automatic page migration"),
}

MEMORY_KEYS: Mapping[str, Spec] = {
    "memory.total": Spec(BYTES, IDENTITY, "memory the kernel has"),
    "memory.available": Spec(BYTES, CONDITION, "memory new programs may take without swapping"),
    "memory.swap_total": Spec(BYTES, CONDITION, "swap space"),
    "memory.swap_used": Spec(BYTES, CONDITION, "swap space in use"),
    "memory.huge_pages": Spec(NONE, CONDITION, "transparent huge pages"),
    "load.1min": Spec(NONE, CONDITION, "load average of 1 minute"),
    "load.5min": Spec(NONE, CONDITION, "load average of 5 minutes"),
    "load.15min": Spec(NONE, CONDITION, "load average of 15 minutes"),
    "load.running": Spec(NONE, CONDITION, "runnable tasks, ours included"),
    "pressure.cpu": Spec(PERCENT, CONDITION, "time some task waited for a CPU, last 10 s"),
    "pressure.memory": Spec(PERCENT, CONDITION, "time some task waited for memory, last 10 s"),
    "pressure.io": Spec(PERCENT, CONDITION, "time some task waited for a disk, last 10 s"),
}

LIMIT_KEYS: Mapping[str, Spec] = {
    "limits.cpu_quota": Spec(NONE, CONDITION, "CPUs the cgroup grants, or `unlimited`"),
    "limits.cpuset": Spec(NONE, CONDITION, "CPUs this process may run on"),
    "limits.memory": Spec(BYTES, CONDITION, "memory the cgroup grants, or `unlimited`"),
    "limits.locked_memory": Spec(BYTES, CONDITION, "ulimit -l: pinned host memory, RDMA"),
    "limits.open_files": Spec(NONE, CONDITION, "ulimit -n"),
    "limits.stack": Spec(BYTES, CONDITION, "ulimit -s"),
    "limits.processes": Spec(NONE, CONDITION, "ulimit -u: processes and threads of the user"),
    "limits.core": Spec(BYTES, INFO, "ulimit -c"),
}

DISK_KEYS: Mapping[str, Spec] = {
    "disk.free": Spec(BYTES, CONDITION, "free bytes where the run is kept"),
    "disk.total": Spec(BYTES, INFO, "size of that file system"),
    "disk.filesystem": Spec(NONE, IDENTITY, "its type"),
    "disk.network": Spec(NONE, IDENTITY, "true when it lies on another machine (NFS, Lustre ...)"),
    "disk.mount": Spec(NONE, INFO, "where it is mounted"),
    "disk.shm_free": Spec(BYTES, CONDITION, "free bytes of /dev/shm"),
    "disk.tree_free": Spec(BYTES, CONDITION, "free bytes where the checkout lies"),
    "disk.tree_filesystem": Spec(NONE, IDENTITY, "type of the file system of the checkout"),
}

SOFTWARE_KEYS: Mapping[str, Spec] = {
    "python.executable": Spec(NONE, INFO, "the interpreter the steps use"),
    "python.version": Spec(NONE, IDENTITY, "its version"),
    "python.implementation": Spec(NONE, IDENTITY, "CPython, PyPy ..."),
    "python.prefix": Spec(NONE, INFO, "its environment (venv, conda)"),
    "python.packages": Spec(NONE, INFO, "how many distributions it sees"),
    "python.packages_sha256": Spec(NONE, IDENTITY, "hash of all their names and versions"),
    "torch.version": Spec(NONE, IDENTITY, "torch, with its local build mark"),
    "torch.cuda": Spec(NONE, IDENTITY, "CUDA toolkit torch was built with"),
    "torch.hip": Spec(NONE, IDENTITY, "HIP torch was built with"),
    "torch.git": Spec(NONE, IDENTITY, "commit torch was built from"),
    "torch.debug": Spec(NONE, IDENTITY, "true for a debug build"),
    "triton.version": Spec(NONE, IDENTITY, "triton"),
    "numpy.version": Spec(NONE, IDENTITY, "numpy"),
    "nccl.version": Spec(NONE, IDENTITY, "the NCCL or RCCL package"),
    "cublas.version": Spec(NONE, IDENTITY, "the cuBLAS package"),
    "cudnn.version": Spec(NONE, IDENTITY, "the cuDNN package"),
    "cuda.runtime": Spec(NONE, IDENTITY, "the CUDA runtime package"),
    "cuda.nvcc": Spec(NONE, IDENTITY, "nvcc the steps would find"),
    "cuda.nvcc_path": Spec(NONE, INFO, "where it is"),
    "rocm.version": Spec(NONE, IDENTITY, "ROCm installation"),
}

DRIVER_KEYS: Mapping[str, Spec] = {
    "driver.version": Spec(NONE, IDENTITY, "GPU driver"),
    "driver.cuda": Spec(NONE, IDENTITY, "newest CUDA the driver serves"),
    "driver.kernel_module": Spec(NONE, IDENTITY, "version of the loaded kernel module"),
    "driver.kernel_module_kind": Spec(NONE, IDENTITY, "`open` or `proprietary` (NVIDIA)"),
    "driver.nvml": Spec(NONE, INFO, "NVML library"),
    "gpu.count": Spec(NONE, IDENTITY, "GPUs; 0 only when no driver and no device node is there"),
    "gpu.warnings": Spec(NONE, CONDITION, "lines a tool printed about a lost or damaged GPU"),
    "topology.class": Spec(NONE, IDENTITY, "how the GPUs are linked, in one word"),
    "topology.links": Spec(NONE, IDENTITY, "the link between each pair of devices"),
    "topology.cpu_affinity": Spec(NONE, IDENTITY, "CPUs near each GPU"),
    "topology.numa_affinity": Spec(NONE, IDENTITY, "NUMA node near each GPU"),
    "topology.nics": Spec(NONE, INFO, "names of the network devices in `topology.links`"),
    "kernel_log.xid_count": Spec(NONE, CONDITION, "NVIDIA Xid lines in the kernel log"),
    "kernel_log.xid": Spec(NONE, INFO, "the newest Xid lines"),
    "kernel_log.sxid_count": Spec(NONE, CONDITION, "NVSwitch SXid lines in it"),
    "kernel_log.sxid": Spec(NONE, INFO, "the newest SXid lines"),
    "kernel_log.oom_kills": Spec(NONE, CONDITION, "out-of-memory kills in it"),
}

# Below `gpu.<i>.`; i counts from 0 in the order of the vendor's own tool.
GPU_KEYS: Mapping[str, Spec] = {
    "vendor": Spec(NONE, IDENTITY, "nvidia, amd, hygon or jetson"),
    "index": Spec(NONE, INFO, "the number its vendor's tool gives it"),
    "name": Spec(NONE, IDENTITY, "model"),
    "uuid": Spec(NONE, INFO, "this very device"),
    "pci_bus_id": Spec(NONE, INFO, "where it is plugged in"),
    "architecture": Spec(NONE, IDENTITY, "Hopper, gfx942 ..."),
    "compute_capability": Spec(NONE, IDENTITY, "CUDA compute capability"),
    "compute_units": Spec(NONE, IDENTITY, "CUs (AMD)"),
    "cores": Spec(NONE, IDENTITY, "CUDA cores"),
    "vbios": Spec(NONE, IDENTITY, "video BIOS"),
    "gsp_firmware": Spec(NONE, IDENTITY, "GSP firmware (NVIDIA)"),
    "memory_total": Spec(BYTES, IDENTITY, "device memory"),
    "memory_used": Spec(BYTES, CONDITION, "device memory in use"),
    "memory_reserved": Spec(BYTES, INFO, "device memory the driver keeps"),
    "memory_bus_width": Spec("bit", IDENTITY, "width of the memory bus"),
    "clock_sm": Spec(HERTZ, CONDITION, "SM (shader, system) clock now"),
    "clock_mem": Spec(HERTZ, CONDITION, "memory clock now"),
    "clock_sm_max": Spec(HERTZ, IDENTITY, "highest SM clock"),
    "clock_mem_max": Spec(HERTZ, IDENTITY, "highest memory clock"),
    "application_clock_sm": Spec(HERTZ, IDENTITY, "SM clock the owner set"),
    "application_clock_mem": Spec(HERTZ, IDENTITY, "memory clock the owner set"),
    "power_draw": Spec(WATTS, CONDITION, "power now"),
    "power_draw_average": Spec(WATTS, CONDITION, "power, averaged by the driver"),
    "power_limit": Spec(WATTS, IDENTITY, "power limit in force"),
    "power_limit_default": Spec(WATTS, IDENTITY, "power limit as delivered"),
    "power_limit_max": Spec(WATTS, INFO, "highest power limit that may be set"),
    "energy": Spec("mJ", INFO, "energy since the driver was loaded"),
    "temperature": Spec(CELSIUS, CONDITION, "core temperature"),
    "temperature_memory": Spec(CELSIUS, CONDITION, "memory temperature"),
    "ecc_mode": Spec(NONE, IDENTITY, "error correction: `enabled` or `disabled`"),
    "ecc_corrected": Spec(NONE, CONDITION, "corrected memory errors since the driver was loaded"),
    "ecc_uncorrected": Spec(NONE, CONDITION, "uncorrected memory errors since then"),
    "ecc_corrected_lifetime": Spec(NONE, INFO, "corrected memory errors of its life"),
    "ecc_uncorrected_lifetime": Spec(NONE, CONDITION, "uncorrected memory errors of its life"),
    "remapped_rows_corrected": Spec(NONE, CONDITION, "rows remapped after corrected errors"),
    "remapped_rows_uncorrected": Spec(NONE, CONDITION, "rows remapped after uncorrected errors"),
    "remapped_rows_pending": Spec(NONE, CONDITION, "a row waits for a reset to be remapped"),
    "remapped_rows_failure": Spec(NONE, CONDITION, "a row could not be remapped"),
    "mig_mode": Spec(NONE, IDENTITY, "`enabled` or `disabled`"),
    "mig_devices": Spec(NONE, IDENTITY, "MIG devices: name, uuid, memory in bytes"),
    "partition": Spec(NONE, IDENTITY, "compute and memory partition (AMD)"),
    "persistence_mode": Spec(NONE, CONDITION, "the driver stays loaded when idle"),
    "compute_mode": Spec(NONE, IDENTITY, "who may use it: `default`, `exclusive_process` ..."),
    "performance_state": Spec(NONE, CONDITION, "P0 (fastest) to P15; AMD: performance level"),
    "throttle_reasons": Spec(NONE, CONDITION, "bit mask of the reasons for the clock now"),
    "throttle_reason_names": Spec(NONE, CONDITION, "the same reasons by name"),
    "throttle_sw_power_cap": Spec(NANOSECONDS, CONDITION, "time held back by the power cap"),
    "throttle_sw_thermal": Spec(NANOSECONDS, CONDITION, "time slowed by software for heat"),
    "throttle_hw_thermal": Spec(NANOSECONDS, CONDITION, "time slowed by hardware for heat"),
    "throttle_hw_power_brake": Spec(NANOSECONDS, CONDITION, "time slowed by the power brake"),
    "throttle_sync_boost": Spec(NANOSECONDS, CONDITION, "time held back by sync boost"),
    "pcie_generation": Spec(NONE, CONDITION, "PCIe generation now (falls when idle)"),
    "pcie_generation_max": Spec(NONE, IDENTITY, "highest PCIe generation here"),
    "pcie_width": Spec(NONE, CONDITION, "PCIe lanes now"),
    "pcie_width_max": Spec(NONE, IDENTITY, "most PCIe lanes here"),
    "pcie_replays": Spec(NONE, CONDITION, "PCIe packets sent again"),
    "nvlinks_active": Spec(NONE, IDENTITY, "NVLinks that are up"),
    "utilization": Spec(PERCENT, CONDITION, "time a kernel ran, last sampling period"),
    "utilization_memory": Spec(PERCENT, CONDITION, "time memory was accessed, last period"),
    "numa_node": Spec(NONE, IDENTITY, "NUMA node it is plugged into"),
    "processes": Spec(NONE, INFO, "processes on it: pid, name, memory in bytes"),
    "foreign_processes": Spec(NONE, CONDITION, "those of them that are not ours"),
}

# How the recording itself went.
RECORD_KEYS: Mapping[str, Spec] = {
    "snapshot.raw": Spec(NONE, INFO, "how many raw outputs were stored"),
}

FIXED_KEYS: Mapping[str, Spec] = {
    **HOST_KEYS,
    **CPU_KEYS,
    **MEMORY_KEYS,
    **LIMIT_KEYS,
    **DISK_KEYS,
    **SOFTWARE_KEYS,
    **DRIVER_KEYS,
    **RECORD_KEYS,
}

# Values of these differ between any two runs by design: where a run lies, which GPU it was lent.
_PER_RUN_VARIABLE = re.compile(
    r"(CUDA|HIP|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|PYTHONPATH|SLURM_\w+|\w+_DIR|\w+_CACHE_PATH"
)
_GPU_KEY = re.compile(r"gpu\.\d+\.(\w+)")


def spec_of(key: str) -> Spec:
    """The meaning of a full key; KeyError for one that is not in the catalogue."""
    if key in FIXED_KEYS:
        return FIXED_KEYS[key]
    if key.startswith("env."):
        return _variable_spec(key[len("env.") :])
    match = _GPU_KEY.fullmatch(key)
    if match is None:
        raise KeyError(f"`{key}` is not in the catalogue of snapshot keys")
    return GPU_KEYS[match.group(1)]


def _variable_spec(name: str) -> Spec:
    severity = INFO if _PER_RUN_VARIABLE.fullmatch(name) else IDENTITY
    return Spec(NONE, severity, "variable of the steps' environment")


def gpu_key(index: int, name: str) -> str:
    return f"gpu.{index}.{name}"
