"""Reviewing a run: every difference accepted with a reason, or rejected."""
