"""Bytes that break a script on the host."""
