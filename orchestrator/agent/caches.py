"""Build and JIT caches: where a ghost result would come from.

Every tool that keeps compiled code across processes is pointed at a directory of its own. By
default that directory is new for each run; an experiment may have it wiped first, or kept, and then
every result of the run says so.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from typing import IO, Any, Iterable, Mapping, Sequence

from orchestrator.agent.layout import Root, RunFolder

# Variable that moves a tool's cache, and the folder it gets.
VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "PYTORCH_KERNEL_CACHE_PATH": "torch_kernels",
    "CUDA_CACHE_PATH": "cuda",
    "CUPY_CACHE_DIR": "cupy",
    "NUMBA_CACHE_DIR": "numba",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "TILELANG_CACHE_DIR": "tilelang",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    "VLLM_CACHE_ROOT": "vllm",
    "MIOPEN_USER_DB_PATH": "miopen_db",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
}

COLD, WARM, WIPED, UNKNOWN = "cold", "warm", "wiped", "unknown"
_SHARE_DEADLINE_S = 60.0


class CacheBusy(Exception):
    """Another run uses the caches that this one was told to wipe."""


@dataclass(frozen=True)
class Caches:
    """The cache directories of a run: variables for the steps, and the state to be recorded.

    `hold` is kept open for as long as the run lives, so that no other run wipes them.
    """

    variables: Mapping[str, str]
    state: str
    facts: Mapping[str, Any]
    hold: IO[str] | None = None


def prepare(
    mode: str, root: Root, run: RunFolder, experiment: str, overridden: Sequence[str] = ()
) -> Caches:
    """Make the cache directories.

    Args:
        mode: isolated, cleared or kept.
        overridden: variables among ours that the experiment sets itself; the state of what those
            tools keep elsewhere is not known.

    Raises:
        CacheBusy: `cleared`, and another run of this experiment is using them; or another one has
            been wiping them for too long.
    """
    if mode == "isolated":
        return _described(mode, COLD, run.caches, overridden)
    top = os.path.join(root.caches, experiment)
    os.makedirs(top, exist_ok=True)
    hold = open(top + ".lock", "a+", encoding="ascii")  # noqa: SIM115 - held for the whole run
    alone = _try_lock(hold, fcntl.LOCK_EX)
    removed: list[str] = []
    if mode == "cleared":
        if not alone:
            hold.close()
            raise CacheBusy(f"another run is using the caches of `{experiment}`")
        shutil.rmtree(top)
        state = WIPED
    else:
        removed = _remove_stale_locks(top) if alone else []
        state = WARM if _holds_files(top) else COLD
    made = _described(mode, state, top, overridden, hold=hold, stale_locks_removed=removed)
    _share(hold, experiment)
    return made


def overridden_in(environments: Iterable[Mapping[str, str]]) -> list[str]:
    """Cache variables that somebody else sets: those tools keep what they build elsewhere."""
    return sorted({name for env in environments for name in env if name in VARIABLES})


def _described(
    mode: str,
    state: str,
    top: str,
    overridden: Sequence[str],
    *,
    hold: IO[str] | None = None,
    **more: Any,
) -> Caches:
    known = UNKNOWN if overridden else state
    facts = {"mode": mode, "state": known, "path": top, "overridden": list(overridden), **more}
    return Caches(_make_folders(top), known, facts, hold)


def _share(hold: IO[str], experiment: str) -> None:
    """From here on others may share what is kept; nobody may wipe it."""
    end = time.monotonic() + _SHARE_DEADLINE_S
    while not _try_lock(hold, fcntl.LOCK_SH):
        if time.monotonic() > end:
            hold.close()
            raise CacheBusy(f"another run has been wiping the caches of `{experiment}` for long")
        time.sleep(0.05)


def _make_folders(top: str) -> dict[str, str]:
    variables = {}
    for variable, folder in VARIABLES.items():
        variables[variable] = os.path.join(top, folder)
        os.makedirs(variables[variable], exist_ok=True)
    return variables


def _try_lock(hold: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(hold, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_stale_locks(top: str) -> list[str]:
    """Lock files of extension builds that were killed; torch waits for them for ever.

    Only called while no other run uses these caches, so nobody holds them.
    """
    removed = []
    for folder, _, names in os.walk(os.path.join(top, VARIABLES["TORCH_EXTENSIONS_DIR"])):
        if "lock" in names:
            path = os.path.join(folder, "lock")
            os.unlink(path)
            removed.append(os.path.relpath(path, top))
    return removed


def _holds_files(top: str) -> bool:
    return any(names for _, _, names in os.walk(top))
