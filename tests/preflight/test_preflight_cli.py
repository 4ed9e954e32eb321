from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from preflight.cli import main, parser

ROOT = Path(__file__).resolve().parents[2]
BAD = 'import torch\n\ntorch.set_default_device("cuda")\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_exit_codes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "good.py").write_text("x = 1\n", "utf-8")
    (here / "bad.py").write_text(BAD, "utf-8")
    (here / "warn.sh").write_text("#!/bin/bash\npython a.py | tee log\n", "utf-8")

    assert main(["good.py"]) == 0
    assert main(["bad.py"]) == 1
    assert main(["warn.sh"]) == 0
    assert main(["warn.sh", "--strict"]) == 1
    assert main(["absent.py"]) == 2
    assert main(["bad.py", "--select", "nothing-like-it"]) == 2
    assert "`absent.py`: no such file or folder" in capsys.readouterr().err


def test_a_pipe_is_not_waited_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(here / "pipe.yaml")

    assert main(["pipe.yaml"]) == 2
    assert "`pipe.yaml`: neither a file nor a folder" in capsys.readouterr().err
    assert main(["."]) == 0


def test_yaml_that_is_too_large_is_not_parsed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "large.yaml").write_text("experiment: x\nx-d:\n" + "- a\n" * (1 << 20), "utf-8")

    assert main(["large.yaml", "--output-format", "concise"]) == 1
    assert "error[unparsed-file] does not parse: the file is larger" in capsys.readouterr().out


def test_select_ignore_and_profile(here: Path) -> None:
    (here / "bad.py").write_text(BAD, "utf-8")

    assert main(["bad.py", "--ignore", "DEV001"]) == 0
    assert main(["bad.py", "--select", "BEN"]) == 0
    assert main(["bad.py", "--select", "default-device-set"]) == 1


def test_explain_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--explain", "SYN003"]) == 0

    text = capsys.readouterr().out
    assert text.startswith("# named-barrier-zero (SYN003)")
    assert "## Known gaps" in text


def test_explain_of_an_unknown_rule_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--explain", "named-barrier-one"]) == 2
    assert "did you mean `named-barrier-zero`?" in capsys.readouterr().err


def test_report_goes_into_a_file(here: Path) -> None:
    (here / "bad.py").write_text(BAD, "utf-8")

    assert main(["bad.py", "--output-format", "sarif", "--output-file", "out.sarif"]) == 1
    assert json.loads((here / "out.sarif").read_text("utf-8"))["version"] == "2.1.0"


def test_barriers_table_and_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "k.cu").write_text(
        '__global__ void k(int* peer) {\n  __syncthreads();\n  asm volatile("bar.sync 2, 64;");\n'
        '  asm volatile("st.release.sys.global.u32 [%0], 1;" ::"l"(peer));\n}\n',
        "utf-8",
    )

    assert main(["barriers"]) == 0
    table = capsys.readouterr().out
    assert main(["barriers", "--output-format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["kernels"]

    assert table.splitlines() == [
        "k.cu:1: k (kernel)",
        "  barrier    0           all threads  1 uses",
        "  barrier    2            64 threads  1 uses",
        "  signal  st.release.sys.global.u32  1 uses",
        "  idle ids: 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    ]
    assert row["barriers"][1] == {"id": "2", "threads": "64", "uses": 1}
    assert row["signals"] == [["st.release.sys.global.u32", 1]]


def test_hostile_files_are_findings_and_never_a_crash(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "crlf.sh").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (here / "bom.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    (here / "latin.py").write_bytes(b'x = "\xff"\n')
    (here / "broken.py").write_bytes(b"def (:\n")
    (here / "null.py").write_bytes(b"x = 1\0\n")
    (here / "latin.yaml").write_bytes(b"experiment: \xff\n")
    (here / "deep.py").write_text("x = " + "(" * 3000 + ")" * 3000 + "\n", "utf-8")
    (here / "empty.py").write_bytes(b"")
    (here / "latin.cu").write_bytes(b"// \xff\n__global__ void k() { __syncthreads(); }\n")

    code = main([".", "--no-cache", "--output-format", "concise"])

    found = {
        line.split(": ")[0].split(":")[0]: line for line in capsys.readouterr().out.splitlines()
    }
    assert code == 1
    assert "error[carriage-return]" in found["crlf.sh"]
    assert "warning[byte-order-mark]" in found["bom.py"]
    for name in ("latin.py", "broken.py", "null.py", "latin.yaml", "deep.py"):
        assert "error[unparsed-file]" in found[name], name
    assert "empty.py" not in found
    assert "latin.cu" not in found


def test_hooks_call_options_that_exist() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

    assert [hook["id"] for hook in hooks] == ["preflight", "preflight-repo"]
    for hook in hooks:
        program, *words = hook["entry"].split()
        assert program == "preflight"
        assert hook["require_serial"] is True
        assert parser().parse_args(words).output_format == "concise"


def test_concise_run_imports_no_heavy_package(here: Path) -> None:
    (here / "bad.py").write_text(BAD, "utf-8")
    heavy = "rich pydantic ruamel.yaml torch tree_sitter typer numpy"
    code = (
        "import sys; from preflight.cli import main\n"
        "main(['bad.py', '--output-format', 'concise'])\n"
        f"print(sorted(set(sys.modules) & set('{heavy}'.split())))\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert result.stdout.splitlines()[-1] == "[]"


def test_this_repository_is_clean() -> None:
    options = ["--strict", "--no-cache", "--output-format", "concise"]

    result = subprocess.run(
        [sys.executable, "-m", "preflight", ".", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert result.returncode == 0, result.stdout
