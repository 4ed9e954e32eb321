"""Rule pages as tests: fenced blocks become files, marks in them become expectations."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

from preflight.config import load_config
from preflight.engine import Options, run
from preflight.finding import Finding
from preflight.fixing import allowed_grades, fix_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "rules"
SECTIONS = (
    "What it does",
    "Why it matters",
    "Flagged",
    "Not flagged",
    "Fix",
    "Known gaps",
    "References",
)
DEFAULT_PATHS = {
    "python": "sample.py",
    "cuda": "sample.cu",
    "cpp": "sample.cu",
    "yaml": "sample.yaml",
    "bash": "sample.sh",
    "toml": "pyproject.toml",
    "gitattributes": ".gitattributes",
}
_MARK = re.compile(r"(?:#|//|/\*)\s*(todo-error|error):\s*\[([\w-]+)\]")


@dataclass
class Block:
    """One fenced block: a file with the lines that must be flagged in it."""

    section: str
    language: str
    options: dict[str, str]
    content: str
    line: int

    @property
    def path(self) -> str:
        return self.options.get("path", DEFAULT_PATHS.get(self.language, "sample.txt"))

    @property
    def data(self) -> bytes:
        if "escaped" in self.options:
            return self.content.encode("latin-1").decode("unicode_escape").encode("latin-1")
        return self.content.encode("utf-8")

    def marked(self, rule: str, mark: str = "error") -> set[int]:
        lines = {
            number
            for number, line in enumerate(self.content.splitlines(), 1)
            for kind, name in _MARK.findall(line)
            if kind == mark and name == rule
        }
        if mark == "error" and "flag" in self.options:
            lines |= {int(word) for word in self.options["flag"].split(",")}
        return lines


@dataclass
class Case:
    """The files of one example: a single block, or all blocks with the same `case=`."""

    section: str
    name: str
    blocks: list[Block] = field(default_factory=list)

    def expected(self, rule: str) -> set[tuple[str, int]]:
        return {(block.path, line) for block in self.blocks for line in block.marked(rule)}


def page_of(rule: str) -> Path:
    return PAGES / f"{rule}.md"


def sections_of(page: Path) -> list[str]:
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    return [
        tokens[index + 1].content
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]


def blocks_of(page: Path) -> Iterator[Block]:
    section = ""
    tokens = MarkdownIt().parse(page.read_text("utf-8"))
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            section = tokens[index + 1].content
        elif token.type == "fence" and token.info:
            language, *words = token.info.split()
            options = dict(word.partition("=")[::2] for word in words)
            line = token.map[0] + 1 if token.map else 0
            yield Block(section, language, options, token.content, line)


def cases_of(page: Path, section: str) -> list[Case]:
    cases: dict[str, Case] = {}
    for block in blocks_of(page):
        if block.section == section:
            name = block.options.get("case", f"line {block.line}")
            cases.setdefault(name, Case(section, name)).blocks.append(block)
    return list(cases.values())


def lint(case: Case, rule: str, folder: Path) -> list[Finding]:
    """Write the files of a case, run every rule over them, and keep this rule's findings."""
    for block in case.blocks:
        file = folder / block.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(block.data)
    if any("git" in block.options for block in case.blocks):
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(
                ["git", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", *words],
                cwd=folder,
                check=True,
                timeout=30,
            )
    config = load_config(folder.resolve())
    options = Options(select=("ALL",), cache=False, jobs=1)
    report = run([folder.resolve()], config, options)
    return [finding for finding in report.findings if finding.rule == rule]


def places(findings: list[Finding]) -> set[tuple[str, int]]:
    return {(finding.path, finding.span.line) for finding in findings}


def fixed(block: Block, findings: list[Finding]) -> bytes:
    grades = allowed_grades(fix=True, unsafe=True)
    return fix_bytes(
        block.path, block.data, [f for f in findings if f.path == block.path], grades
    ).after
