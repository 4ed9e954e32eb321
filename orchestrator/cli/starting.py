"""`orch init`: the files a project starts with. What is there already stays as it is."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import SourceError
from orchestrator.source import repository
from orchestrator.spec.schema import FILES, schema_text

_HOSTS = """\
# yaml-language-server: $schema=./schemas/hosts.schema.json
# How each machine is reached. `local` always exists; the rest is yours.
hosts:
  # gpu1:
  #   ssh: you@gpu1.example.com     # or an alias of ~/.ssh/config; no ssh program needed
  #   venv: ~/venvs/torch           # what the steps need: venv, conda, modules, python or setup
  #   keep_open: 10m                # the next run within ten minutes does not log in
  # gpu2:
  #   openssh: gpu2                 # your own ssh program: MFA, FIDO keys, certificates
  # pod:
  #   via: [kubectl, exec, -i, my-pod, --]
  here:
    local: true
"""

_EXPERIMENT = """\
# yaml-language-server: $schema=../schemas/experiment.schema.json
experiment: first
question: Does a step on the host see the point it was given?
host: local
timeout: 1m
steps:
  - id: square
    matrix: {n: [3, 4]}
    run: |
      python3 - <<'END'
      import os
      from orch_results import record
      n = int(os.environ["ORCH_POINT_N"])
      record("square", n * n, "1")
      END
  - id: report
    needs: [square]
    run: uname -a > "$ORCH_OUT/uname.txt"
ledger: first.ledger.yaml
"""

_LEDGER = """\
# yaml-language-server: $schema=../schemas/ledger.schema.json
ledger: first
entries:
  - id: square.of.three
    metric: square
    where: {n: 3}
    unit: "1"
    expect: {value: 9, exact: true}
    because: three times three, by the definition of a square
    source: closed_form
    decides: whether the point reaches the step
"""

_ATTRIBUTES = (
    "*.sh text eol=lf",
    "*.py text eol=lf",
    "*.yaml text eol=lf",
    "*.yml text eol=lf",
    "*.cu text eol=lf",
    "*.cuh text eol=lf",
)
_IGNORED = ("/artifacts/",)


def init(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "hosts.yaml", _HOSTS)
    _write(folder / "experiments" / "first.yaml", _EXPERIMENT)
    _write(folder / "experiments" / "first.ledger.yaml", _LEDGER)
    for kind in FILES:
        _write(folder / "schemas" / f"{kind}.schema.json", schema_text(kind))
    _add_lines(folder / ".gitattributes", _ATTRIBUTES)
    _add_lines(folder / ".gitignore", _IGNORED)
    print(f"next: {_before_a_run(folder)}orch run experiments/first.yaml")


def _before_a_run(folder: Path) -> str:
    """What is sent is what git would commit: without a repository there is nothing to send."""
    try:
        repository.find(folder)
    except SourceError:
        return "git init, then "
    return ""


def _write(path: Path, text: str) -> None:
    if path.exists():
        print(f"kept     {path}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="\n")
    print(f"wrote    {path}")


def _add_lines(path: Path, lines: tuple[str, ...]) -> None:
    """Append the lines a file lacks; one that names the same pattern counts as there."""
    before = path.read_text("utf-8") if path.exists() else ""
    patterns = {line.split()[0] for line in before.splitlines() if line.strip()}
    missing = [line for line in lines if line.split()[0] not in patterns]
    if not missing:
        print(f"kept     {path}")
        return
    separator = "" if not before or before.endswith("\n") else "\n"
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(separator + "\n".join(missing) + "\n")
    print(f"added to {path}: {', '.join(missing)}")
