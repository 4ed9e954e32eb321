"""Fused mixture-of-experts layer: reference, schedule, grouped GEMMs and the Hopper fast path."""

from kernels.backend import BACKEND as BACKEND
