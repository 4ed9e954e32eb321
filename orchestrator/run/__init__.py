"""`orch run`, from the experiment's file to its verdict."""

from orchestrator.run.course import run
from orchestrator.run.state import Options

__all__ = ["Options", "run"]
