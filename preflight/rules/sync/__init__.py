"""Barriers, atomics and flags in CUDA code."""
