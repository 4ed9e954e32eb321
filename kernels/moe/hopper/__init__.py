"""The Hopper fast path, by role; see `kernel` for how its parts meet."""
