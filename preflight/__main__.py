"""`python -m preflight`."""

from __future__ import annotations

from preflight.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
