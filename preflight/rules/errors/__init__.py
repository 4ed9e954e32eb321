"""Failures that leave no trace."""
