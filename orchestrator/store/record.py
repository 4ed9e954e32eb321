"""run.json: what the laptop knows of a run, from before its first step to its verdict."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["created", "running", "ended", "home"]


class _Part(BaseModel):
    """Unknown keys are kept on reading: a newer `orch` may have written the file."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class Sealed(_Part):
    """The ledger as it was before the run, and whether git can prove that."""

    file: str
    sha256: str
    committed: bool = False
    revision: str = ""


class Tree(_Part):
    """The source tree: its hash here, and the hash the host computed from what it wrote."""

    local: str
    host: str = ""
    object_format: str = "sha1"


class Bundle(_Part):
    """What came home."""

    size: int
    manifest_sha256: str
    files: int = 0
    confirmed: bool = True
    """Whether the host was told that it is home, so that it may remove its copy."""


class Preflight(_Part):
    """What the linter said, or that it was not asked."""

    ran: bool
    errors: int = 0
    warnings: int = 0
    suppressed: int = 0


class Timings(_Part):
    """The three honest latencies, in seconds from the command's start; None when not reached."""

    connected_s: float | None = None
    started_s: float | None = None
    first_step_s: float | None = None
    ended_s: float | None = None
    home_s: float | None = None
    uploaded_bytes: int = 0


class RunRecord(_Part):
    """The whole file.

    States: `created` (sealed, not yet on the host), `running` (the host has taken over), `ended`
    (the host's last word is here, the bundle is not), `home` (the bundle is here and verified).
    """

    schema_version: int = Field(default=1, alias="schema")
    run_id: str
    experiment: str
    experiment_file: str
    host: str
    carrier: str
    created_at: str
    orch_version: str
    state: State = "created"
    tree: Tree
    note: str = ""
    code: dict[str, Any] = Field(default_factory=dict)
    caches: str = "isolated"
    ledger: Sealed | None = None
    preflight: Preflight | None = None
    plan_sha256: str = ""
    bundle: Bundle | None = None
    timings: Timings = Timings()
    counts: dict[str, int] = Field(default_factory=dict)
    exit_code: int | None = None
