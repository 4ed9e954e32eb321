"""The GPU code under test: kernels, their references, checks and measuring programs."""
