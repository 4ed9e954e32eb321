"""The suppressions themselves."""
