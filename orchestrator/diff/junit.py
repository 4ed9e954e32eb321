"""The comparison as JUnit XML, for the test views of CI systems: a case an artifact or metric."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from orchestrator.diff.comparison import Comparison
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import Record
from orchestrator.errors import InputError

# Characters that XML 1.0 cannot hold in any spelling.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_FAILED = frozenset({"different", "only_a", "only_b"})
_ERRORS = frozenset({"unreadable", "no_value"})
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
    """The document: one suite of metrics, one of artifacts."""
    root = ElementTree.Element("testsuites", name=_clean(_title(comparison)))
    _suite(
        root, "metrics", [(_metric_name(m), m.outcome, _metric_text(m)) for m in comparison.metrics]
    )
    _suite(root, "artifacts", [(r.path, r.status, _record_text(r)) for r in comparison.artifacts])
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _title(comparison: Comparison) -> str:
    return f"orch diff {comparison.a.name} {comparison.b.name}"


def _suite(root: ElementTree.Element, name: str, cases: list[tuple[str, str, str]]) -> None:
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
            found = ElementTree.SubElement(case, tag, message=_clean(status.replace("_", " ")))
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


def _metric_text(metric: MetricDiff) -> str:
    a, b = metric.contrast.a, metric.contrast.b
    values = f"{a.value} -> {b.value}" if a.point_class == "exact" else ""
    return "\n".join(part for part in (metric.contrast.reason, values) if part)


def _record_text(record: Record) -> str:
    lines = [record.note] if record.note else []
    lines += [f"tolerance: {record.tolerance}"] if record.tolerance else []
    lines += [f"{name}: {value:g}" for name, value in record.metrics.items()]
    lines += [f"{place.where}: {place.a} -> {place.b}" for place in record.locations]
    lines += [f"{child.path}: {child.status}" for child in record.children]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
