"""Every broken file tells its own file:line:col, what was expected and a way out; exit code 2."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Project

BROKEN = Path(__file__).resolve().parent.parent / "resources" / "broken"

# File, where the message must point, and words that name the mistake or the way out.
CASES = {
    "01-tab-indent.yaml": ("3:1", "indent with blanks, not tabs"),
    "02-duplicate-key.yaml": ("3:1", "the key `timeout` stands twice"),
    "03-unknown-key.yaml": ("5:5", "did you mean `timeout`?"),
    "04-missing-run.yaml": ("4:5", "the key `run` is missing in `steps[0]`"),
    "05-no-deadline.yaml": ("3:9", "the step `a` has no deadline"),
    "06-bad-duration.yaml": ("2:10", "write `90s`"),
    "07-unknown-need.yaml": ("5:21", "did you mean `compile`?"),
    "08-cycle.yaml": ("4:20", "a -> c -> b -> a"),
    "09-unknown-placeholder.yaml": ("6:10", "`{expert}` is not an axis"),
    "10-placeholder-in-quotes.yaml": ("6:10", 'use "$ORCH_POINT_NAME"'),
    "11-empty-matrix.yaml": ("5:13", "`exclude` leaves no point"),
    "12-exclude-unknown-value.yaml": ("8:21", "`experts: 32`, which no point has"),
    "13-step-twice.yaml": ("5:10", "the step `Sweep` stands twice"),
    "14-missing-ledger.yaml": ("3:9", "no file `nowhere.ledger.yaml`"),
    "15-path-leaves-tree.yaml": ("6:15", "leaves the tree"),
    "16-bad-signal.yaml": ("6:20", "NCCL catches it"),
    "17-not-a-mapping.yaml": ("1:1", "does not hold a mapping"),
    "18-not-utf8.yaml": ("2:1", "the file is not UTF-8"),
    "19-unknown-host.yaml": ("3:7", "no host is named `h200`"),
    "20-empty.yaml": ("1:1", "the file is empty"),
    "21-ledger-for-another.yaml": ("6:13", "`rel: 2` cannot fail"),
    "22-too-many-points.yaml": ("7:7", "the axes span 1000000 points"),
    "23-zero-byte.yaml": ("6:10", "holds a zero byte"),
    "24-deadline-of-ages.yaml": ("2:10", "longer than anybody waits"),
    "25-included-point-lacks-an-axis.yaml": ("9:11", "lacks `a` and has the unknown axis `b`"),
    "26-matrix-without-axes.yaml": ("7:7", "the matrix has no axis"),
    "27-nested-too-deep.yaml": ("4:108", "nested more than 100 levels deep"),
    "28-aliases-of-aliases.yaml": ("10:16", "with all aliases written out"),
    "29-yaml-of-the-future.yaml": ("1:1", "the file asks for YAML 1.3"),
}


@pytest.fixture
def broken(project: Project) -> Project:
    for path in BROKEN.iterdir():
        project.write(path.name, path.read_bytes())
    return project


@pytest.mark.parametrize("name", CASES)
def test_tells_place_and_mistake_and_exits_with_2(broken: Project, name: str) -> None:
    place, words = CASES[name]

    done = broken.orch("run", name)

    assert done.code == 2
    assert words in done.err
    assert re.search(rf"[\w.-]+:{place}: ", done.err), done.err
    assert "Traceback" not in done.err
    assert broken.runs == []


def test_every_file_has_its_case() -> None:
    assert {path.name for path in BROKEN.glob("*.yaml")} == set(CASES)


def test_all_mistakes_of_a_file_are_told_at_once(broken: Project) -> None:
    done = broken.orch("plan", "21-ledger-for-another.yaml")

    places = re.findall(r"^(?:orch: )?[\w.-]+:(\d+):\d+: ", done.err, re.MULTILINE)
    assert places == ["6", "13", "14", "15"]
