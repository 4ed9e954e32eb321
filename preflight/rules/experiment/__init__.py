"""Experiment, ledger and host files."""
