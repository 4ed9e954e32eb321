"""`python -m orchestrator`, for where the `orch` script is not on PATH."""

from orchestrator.cli import main

main()
