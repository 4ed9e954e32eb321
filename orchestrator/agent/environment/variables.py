"""The variables of the steps' environment that change what a GPU program does.

Only names on this list are ever read; one on it that looks like a secret's is told without a value.
"""

from __future__ import annotations

import re
from typing import Mapping

from orchestrator.agent.environment.field import Readings, known, unknown
from orchestrator.agent.environment.redact import looks_secret, redacted

_SOURCE = "environment of the steps"

_ALLOWED = re.compile(
    r"(CUDA|CUBLAS|CUBLASLT|CUDNN|NVIDIA|NCCL|NVSHMEM|NVTE|NVFUSER|CUTLASS|CUTE)_\w+"
    r"|(HIP|HSA|ROCR|ROCBLAS|HIPBLASLT|AMD|MIOPEN|RCCL|AITER)_\w+|GPU_MAX_HW_QUEUES|GPU_DEVICE_ORDINAL"
    r"|(TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|TRITON|FLASHINFER|UCX|GLOO|XLA)_\w+"
    r"|(OMP|KMP|MKL|OPENBLAS|GOMP|NUMEXPR|BLIS)_\w+|MAX_JOBS|TOKENIZERS_PARALLELISM"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|MALLOC_\w+|GLIBC_TUNABLES|CC|CXX|CFLAGS|CXXFLAGS"
    r"|PYTHON(PATH|HASHSEED|OPTIMIZE|NOUSERSITE|UNBUFFERED|MALLOC|DONTWRITEBYTECODE|SAFEPATH)"
    r"|SLURM_(JOB_ID|JOB_PARTITION|JOB_NODELIST|CPUS_PER_TASK|CPUS_ON_NODE|GPUS\w*|STEP_GPUS|NTASKS|PROCID)"
    r"|LANG|LC_ALL|TZ|CONDA_DEFAULT_ENV|CONDA_PREFIX|VIRTUAL_ENV|LOADEDMODULES"
)


def readings(env: Mapping[str, str]) -> Readings:
    """`env.<name>` of every allowed name that is set."""
    found: Readings = {}
    for name in sorted(filter(_ALLOWED.fullmatch, env)):
        if looks_secret(name):
            found[f"env.{name}"] = unknown(_SOURCE, "withheld: the name looks like a secret's")
        else:
            found[f"env.{name}"] = known(redacted(env[name]), _SOURCE)
    return found
