"""`orch`: run GPU experiments on a remote host and bring home evidence you can trust."""

from __future__ import annotations

__version__ = "0.1.0"
