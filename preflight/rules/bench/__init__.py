"""Timings that do not measure what they claim."""
