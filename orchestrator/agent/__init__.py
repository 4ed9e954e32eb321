"""What runs on the host: standard library only, Python 3.8+, and nothing else of the project."""
