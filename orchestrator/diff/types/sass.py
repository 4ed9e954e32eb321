"""SASS: what cuobjdump and nvdisasm list, and what ptxas -v and cuobjdump -res-usage tell of it.

One reader for all four, because people put them into one file. Registers and labels are numbered
by first appearance, branch targets are relative, offsets into constant banks are left out: they
move with every change of a signature.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.diff.listings import kernel
from orchestrator.diff.listings.kernel import Kernel, Listing
from orchestrator.diff.listings.renumber import Renumber
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import Unreadable

_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,8})\*/\s+\{?\s*([^;/]*?[^;]*?)\s*(?:;|$)")
_ENCODING = re.compile(r"/\*.*?\*/")
_LABEL_LINE = re.compile(r"(\.L_\w+|\.L\w*):")
_REGISTER = re.compile(r"\b(UR|UP|SB|R|P|B)\d+\b")
_LABEL = re.compile(r"(\.L_x_|\.L_)\d+")
_CONSTANT = re.compile(r"\b(cx?\[[^\]]*\])\[[^\]]*\]")
_BRANCH = re.compile(r"\b(?:BRA|BSSY|BRX|CALL|JMP|JCAL|CAL|SSY|PBK|PCNT|RET|WARPSYNC|BSYNC)\b")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\b")
_PREDICATE = re.compile(r"@!?U?P[T\d]+\s+")


def compare(pair: Pair) -> Record:
    """Compare two listings."""
    return kernel.compare_texts(pair, parse)


def check(pair: Pair) -> None:
    kernel.check_text(pair, parse)


@dataclass
class _Reading:
    """One kernel while its lines come by."""

    name: str
    arch: str
    resources: dict[str, int] = field(default_factory=dict)
    opcodes: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    registers: Renumber = field(default_factory=lambda: Renumber(_REGISTER))
    labels: Renumber = field(default_factory=lambda: Renumber(_LABEL))

    def done(self) -> Kernel:
        return Kernel(self.name, self.arch, self.resources, self.opcodes, tuple(self.lines))


def parse(text: str) -> Listing:
    """All kernels of a listing.

    Raises:
        Unreadable: no kernel is in it.
    """
    reader = _Reader()
    for line in text.split("\n"):
        reader.take(line.rstrip("\r"))
    _join_resources(reader.found)
    kernels = tuple(
        reading.done() for reading in reader.found.values() if reading.lines or reading.resources
    )
    if not kernels:
        raise Unreadable("has no kernel: neither instructions nor resources are told")
    return Listing(kernels, tuple(dict.fromkeys(reader.compiler)))


def _join_resources(found: dict[tuple[str, str], _Reading]) -> None:
    """Resources told before any architecture belong to the only kernel of that name."""
    for name, arch in [key for key in found if not key[1]]:
        homes = [key for key in found if key[0] == name and key[1]]
        if len(homes) == 1:
            told = found.pop((name, arch))
            found[homes[0]].resources = told.resources | found[homes[0]].resources


class _Reader:
    """Goes through the lines; each of them may say something to one of the rules."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], _Reading] = {}
        self.compiler: list[str] = []
        self._arch = ""
        self._code: _Reading | None = None
        self._told: _Reading | None = None
        self._attribute = ""
        self._rules: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (re.compile(r"\s*(?:code for|arch =) (sm_\w+)"), self._set_arch),
            (re.compile(r".*\bEF_CUDA_SM(\d+)"), self._set_arch_of_header),
            (re.compile(r"\s*Function : (\S+)"), self._begin_code),
            (re.compile(r"\s*\.section\s+\.text\.([^,\s]+)"), self._begin_code),
            (re.compile(r"\s*\.section\s+\.nv\.shared\.([^,\s]+)"), self._begin_shared),
            (re.compile(r"\s*\.section\s"), self._end_code),
            (re.compile(r"\s*\.zero\s+(\d+)"), self._add_shared),
            (re.compile(r"\s*\.sectioninfo\s+@\"SHI_REGISTERS=(\d+)\""), self._set_registers),
            (re.compile(r"\s*//-+ nvinfo : (EIATTR_\w+)"), self._set_attribute),
            (re.compile(r"\s*/\*\w+\*/\s+\.word\s+index@\((.+)\)"), self._begin_told),
            (re.compile(r"\s*/\*\w+\*/\s+\.word\s+0x([0-9a-f]{8})\b"), self._set_by_attribute),
            (re.compile(r"\s+Function (\S+):$"), self._begin_told),
            (re.compile(r"\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)"), self._set_usage),
            (re.compile(r".*Compiling entry function '([^']+)' for '(\w+)'"), self._begin_entry),
            (re.compile(r".*Function properties for '?([^\s':]+)"), self._begin_properties),
            (
                re.compile(
                    r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                ),
                self._set_spills,
            ),
            (re.compile(r".*[Uu]sed (\d+) registers(.*)"), self._set_used),
            (re.compile(r"\s*(?:.*\bcompiler_?version|.*Cuda compilation tools)(.*)"), self._note),
        )

    def take(self, line: str) -> None:
        if self._code is not None and self._instruction(self._code, line):
            return
        for pattern, rule in self._rules:
            match = pattern.match(line)
            if match is not None:
                rule(match)
                return

    def _instruction(self, reading: _Reading, line: str) -> bool:
        label = _LABEL_LINE.match(line)
        if label is not None:
            reading.lines.append(reading.labels(label[0]))
            return True
        found = _INSTRUCTION.match(line)
        if found is None:
            return False
        words = _PREDICATE.sub("", found[2], count=1).split()
        # Encodings and data words stand behind the same kind of address.
        if not words or words[0].startswith((".", "0x", "/")):
            return words == []
        reading.opcodes[words[0]] += 1
        reading.lines.append(_normal(found[2], int(found[1], 16), reading))
        return True

    def _reading(self, name: str, arch: str = "") -> _Reading:
        key = (name, arch or self._arch)
        if key not in self.found:
            self.found[key] = _Reading(name, key[1])
        return self.found[key]

    # -- listings

    def _set_arch(self, match: re.Match[str]) -> None:
        self._arch = match[1]

    def _set_arch_of_header(self, match: re.Match[str]) -> None:
        self._arch = self._arch or f"sm_{match[1]}"

    def _begin_code(self, match: re.Match[str]) -> None:
        self._code = self._reading(match[1])

    def _end_code(self, match: re.Match[str]) -> None:
        self._code = self._told = None

    def _begin_shared(self, match: re.Match[str]) -> None:
        self._code = None
        reserved = match[1].startswith("reserved")
        self._told = None if reserved else self._reading(match[1])
        if self._told is not None:
            self._told.resources.setdefault("shared_bytes", 0)

    def _add_shared(self, match: re.Match[str]) -> None:
        if self._told is not None and "shared_bytes" in self._told.resources:
            self._told.resources["shared_bytes"] += int(match[1])

    def _set_registers(self, match: re.Match[str]) -> None:
        if self._code is not None:
            self._code.resources["registers"] = int(match[1])

    def _set_attribute(self, match: re.Match[str]) -> None:
        self._attribute = match[1]
        self._told = None

    def _begin_told(self, match: re.Match[str]) -> None:
        self._told = self._reading(match[1])

    def _set_by_attribute(self, match: re.Match[str]) -> None:
        what = {"EIATTR_REGCOUNT": "registers", "EIATTR_FRAME_SIZE": "stack_bytes"}.get(
            self._attribute
        )
        if what is not None and self._told is not None:
            self._told.resources[what] = int(match[1], 16)

    # -- what tools tell beside

    def _set_usage(self, match: re.Match[str]) -> None:
        if self._told is not None:
            names = ("registers", "stack_bytes", "shared_bytes", "local_bytes")
            self._told.resources |= dict(zip(names, map(int, match.groups()), strict=True))

    def _begin_entry(self, match: re.Match[str]) -> None:
        self._arch = match[2]
        self._told = self._reading(match[1], match[2])

    def _begin_properties(self, match: re.Match[str]) -> None:
        self._told = self._reading(match[1])

    def _set_spills(self, match: re.Match[str]) -> None:
        if self._told is not None:
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            self._told.resources |= dict(zip(names, map(int, match.groups()), strict=True))

    def _set_used(self, match: re.Match[str]) -> None:
        if self._told is None:
            return
        self._told.resources["registers"] = int(match[1])
        shared = re.search(r"(\d+)(?:\+(\d+))? bytes smem", match[2])
        self._told.resources["shared_bytes"] = int(shared[1]) + int(shared[2] or 0) if shared else 0

    def _note(self, match: re.Match[str]) -> None:
        self.compiler.append(match[0].strip())


def _normal(text: str, address: int, reading: _Reading) -> str:
    line = _ENCODING.sub("", text).replace(".reuse", "")
    line = _CONSTANT.sub(r"\1[#]", line)
    if _BRANCH.search(line):
        line = _TARGET.sub(lambda match: f"{int(match[1], 16) - address:+#x}", line)
    return " ".join(reading.labels(reading.registers(line)).replace("`", "").split())
