"""Stale binaries."""
