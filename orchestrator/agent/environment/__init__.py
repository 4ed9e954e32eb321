"""The state of a GPU host, before and after a run: every field with its state, value, unit, source.

    snapshot()        the whole state, with the raw outputs of the tools beside it
    drift()           what changed between two of them
    gpu_state_text()  a few lines about the GPUs for the log of a step that is about to be stopped
    visible_gpus()    the GPUs a lease can choose from

Nothing here waits longer than it is told to, and a value that could not be read is never 0.
"""

from __future__ import annotations

from orchestrator.agent.environment.drift import drift
from orchestrator.agent.environment.gpu_state import gpu_state_text, visible_gpus
from orchestrator.agent.environment.snapshot import snapshot
from orchestrator.agent.environment.together import ProbeError

__all__ = ["ProbeError", "drift", "gpu_state_text", "snapshot", "visible_gpus"]
