"""Preflight: a linter for GPU experiments, and the guards for what no static rule can prove."""

from __future__ import annotations

__version__ = "0.1.0"
