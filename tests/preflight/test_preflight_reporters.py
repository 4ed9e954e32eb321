"""Golden outputs: what a person, a program and GitHub read."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif

from preflight.cli import render

FILES = {
    "a.py": 'import torch\n\ntorch.set_default_device("cuda")\n',
    "run.sh": "#!/bin/bash\npython a.py | tee log  # preflight: ignore[ERR005] -- only a log\n",
}
WHY = (
    "every tensor made without `device=`, host tables too, lands on the GPU, and each store to one "
    "of its elements becomes a kernel"
)
HELP = (
    'pass `device=` where tensors are made, or use `with torch.device("cuda"):` around the few '
    "that "
    "need it"
)


def test_concise(lint) -> None:  # type: ignore[no-untyped-def]
    assert render(lint(FILES), "concise") == (
        'a.py:3:1: error[default-device-set] the default device becomes `"cuda"` for the whole '
        f"process; {WHY}; {HELP}\n"
        "preflight: 1 error in 2 files; 1 suppressed\n"
    )


def test_full(lint) -> None:  # type: ignore[no-untyped-def]
    assert render(lint(FILES), "full") == (
        'a.py:3:1: error[default-device-set] the default device becomes `"cuda"` for the whole '
        "process\n"
        '  3 | torch.set_default_device("cuda")\n'
        "    | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"  why:  {WHY}\n"
        f"  help: {HELP}\n"
        "  more: preflight --explain default-device-set\n"
        "\n"
        "preflight: 1 error in 2 files; 1 suppressed\n"
    )


def test_github(lint) -> None:  # type: ignore[no-untyped-def]
    files = {"50 %, a.py": FILES["a.py"]}

    assert render(lint(files), "github") == (
        "::error file=50 %25%2C a.py,line=3,col=1,endColumn=33,endLine=3,title=default-device-set::"
        f'the default device becomes `"cuda"` for the whole process; {WHY}; {HELP}\n'
        "preflight: 1 error in 1 files\n"
    )


def test_json(lint) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(render(lint(FILES), "json"))

    assert data == json.loads(render(lint(FILES), "json-v1"))
    (finding,) = data["findings"]
    assert data["schema"] == "preflight/json-v1"
    assert len(finding.pop("id")) == 16
    assert finding == {
        "rule": "default-device-set",
        "code": "DEV001",
        "path": "a.py",
        "span": {
            "line": 3,
            "column": 1,
            "end_line": 3,
            "end_column": 33,
            "start_byte": 14,
            "end_byte": 46,
        },
        "severity": "error",
        "profile": "regular",
        "message": 'the default device becomes `"cuda"` for the whole process',
        "consequence": WHY,
        "help": HELP,
        "fix": None,
        "related": [],
    }
    (suppressed,) = data["suppressed"]
    assert suppressed["finding"]["rule"] == "pipeline-without-pipefail"
    assert (suppressed["reason"], suppressed["until"], suppressed["line"]) == (
        "only a log",
        None,
        2,
    )


def test_sarif_says_where_what_and_why_it_is_suppressed(lint) -> None:  # type: ignore[no-untyped-def]
    document = json.loads(render(lint(FILES), "sarif"))

    (run,) = document["runs"]
    shown, suppressed = run["results"]
    rules = run["tool"]["driver"]["rules"]
    assert document["version"] == "2.1.0"
    assert rules[shown["ruleIndex"]]["id"] == shown["ruleId"] == "default-device-set"
    place = shown["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a.py"
    assert place["region"]["startLine"] == 3
    assert suppressed["suppressions"] == [{"kind": "inSource", "justification": "only a log"}]


def test_sarif_of_every_rule_follows_the_schema(lint) -> None:  # type: ignore[no-untyped-def]
    """pydantic-sarif is generated from the schema that OASIS publishes, unknown keys forbidden."""
    files = {
        "exp.yaml": "experiment: exp\nhost: x\nsteps:\n  - {id: a, run: 'true', needs: [b]}\n",
        "ä b.py": FILES["a.py"] + "x = (\n",
        "bad.py": b"\xff\n",
        "crlf.sh": b"\xef\xbb\xbf#!/bin/sh\r\n",
        "k.cu": '__global__ void k() {\n  asm("bar.sync 16, 100;");\n  __syncthreads();\n}\n',
        **FILES,
    }
    document = json.loads(render(lint(files, select=("ALL",)), "sarif"))

    schema = Sarif.model_validate(document)
    assert schema.version.value == "2.1.0"
    assert len(document["runs"][0]["results"]) >= 9
    region = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    region["startLine"] = 0
    with pytest.raises(ValidationError):
        Sarif.model_validate(document)
