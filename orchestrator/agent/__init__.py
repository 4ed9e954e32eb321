"""What runs on the GPU host: standard library only, Python 3.8 or newer, nothing else of `orch`.

It travels as a zip in the stream that starts it, so a host needs an account and a `python3`.
"""
