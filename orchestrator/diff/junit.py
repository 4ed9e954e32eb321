"""The comparison as JUnit XML, for the test views of CI systems.

A case for each ending, metric and artifact, so that a comparison whose exit code is 1 has a failure
and one whose exit code is 3 an error or a skipped case: a green view never means either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from orchestrator.diff.comparison import Comparison
from orchestrator.diff.jobs import Ended
from orchestrator.diff.measures.contrast import Level
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import Record
from orchestrator.errors import InputError

# Characters that XML 1.0 cannot hold in any spelling.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_FAILED = frozenset({"different", "only_a", "only_b", "ended_otherwise"})
_ERRORS = frozenset({"unreadable", "no_value", "problem"})
_MESSAGE_CHARACTERS = 200
_SKIPPED = frozenset({"skipped", "not_comparable", "ambiguous", "too_few"})


def write(comparison: Comparison, path: Path) -> None:
    """Write the file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.write_bytes(render(comparison))
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror}") from error


def render(comparison: Comparison) -> bytes:
    """The document: a suite of endings, of metrics, of artifacts, and of what could not be had."""
    root = ElementTree.Element("testsuites", name=_clean(_title(comparison)))
    ended = [
        (f"{one.kind} {one.id}", "ended_otherwise", _ended_text(one)) for one in comparison.ended
    ]
    metrics = [(_metric_name(m), m.outcome, _metric_text(m)) for m in comparison.metrics]
    artifacts = [(r.path, r.status, _record_text(r)) for r in comparison.artifacts]
    _suite(root, "ended", ended)
    _suite(root, "metrics", metrics)
    _suite(root, "artifacts", artifacts)
    _suite(root, "problems", [(words, "problem", words) for words in _problems(comparison)])
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _title(comparison: Comparison) -> str:
    return f"orch diff {comparison.a.name} {comparison.b.name}"


def _problems(comparison: Comparison) -> list[str]:
    found = list(comparison.all_problems)
    if not comparison.metrics and not comparison.artifacts:
        found.append("nothing was compared: neither side has a metric or an artifact")
    return found


def _suite(root: ElementTree.Element, name: str, cases: Sequence[tuple[str, str, str]]) -> None:
    counts = {
        "failures": sum(status in _FAILED for _, status, _ in cases),
        "errors": sum(status in _ERRORS for _, status, _ in cases),
        "skipped": sum(status in _SKIPPED for _, status, _ in cases),
    }
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {"name": name, "tests": str(len(cases))}
        | {key: str(count) for key, count in counts.items()},
    )
    for title, status, text in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=_clean(title))
        tag = _tag(status)
        if tag:
            first = text.partition("\n")[0][:_MESSAGE_CHARACTERS]
            words = ": ".join(filter(None, (status.replace("_", " "), first)))
            found = ElementTree.SubElement(case, tag, message=_clean(words))
            found.text = _clean(text)


def _tag(status: str) -> str:
    if status in _FAILED:
        return "failure"
    if status in _ERRORS:
        return "error"
    return "skipped" if status in _SKIPPED else ""


def _metric_name(metric: MetricDiff) -> str:
    where = ", ".join(f"{axis}={value}" for axis, value in metric.point.items())
    return f"{metric.metric} {metric.step}[{where}]"


def _ended_text(ended: Ended) -> str:
    return " -> ".join(state.replace("_", " ") for state in (ended.a, ended.b))


def _metric_text(metric: MetricDiff) -> str:
    found = metric.contrast
    sides = " -> ".join(_level(level, found.unit) for level in (found.a, found.b))
    ratio = f"B/A {found.ratio:.4g}" if found.ratio is not None else ""
    return "\n".join(part for part in (sides, ratio, found.reason) if part)


def _level(level: Level, unit: str) -> str:
    value = next((v for v in (level.value, level.centre, level.median) if v is not None), None)
    if value is None:
        return "nothing"
    words = f"{value:.4g}" if isinstance(value, float) else str(value)
    return words if unit in ("", "1") else f"{words} {unit}"


def _record_text(record: Record) -> str:
    lines = [record.note] if record.note else []
    lines += [f"tolerance: {record.tolerance}"] if record.tolerance else []
    lines += [f"{name}: {value:g}" for name, value in record.metrics.items()]
    lines += [f"{place.where}: {place.a} -> {place.b}" for place in record.locations]
    lines += [f"{child.path}: {child.status}" for child in record.children]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
