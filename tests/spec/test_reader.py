"""Which YAML is read, and what is to cost the same for each: merge keys and comments."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import tokens

from orchestrator.errors import SpecError
from orchestrator.spec.document import parse
from orchestrator.spec.reader import reader

MERGED = """
x-base: &base {a: 1, c: 2}
entries:
  - <<: *base
    a: 5
  - {<<: [*base, {z: 3}], q: 1}
  - <<: *base
"""


def test_a_mapping_takes_over_what_it_does_not_say_itself() -> None:
    read = reader().load(MERGED)

    assert [dict(entry) for entry in read["entries"]] == [
        {"a": 5, "c": 2},
        {"q": 1, "a": 1, "c": 2, "z": 3},
        {"a": 1, "c": 2},
    ]


def test_a_base_does_not_remember_who_took_it_over() -> None:
    """It would be compared with all of them at each further `<<`: 9000 took 78 s, now 1."""
    read = reader().load(MERGED)

    assert read["x-base"]._ref == []


@pytest.mark.parametrize(("version", "value"), [("1.1", True), ("1.2", "on")])
def test_a_file_may_say_which_yaml_it_is(version: str, value: object) -> None:
    assert parse(f"%YAML {version}\n---\na: on\n", "e.yaml").data == {"a": value}


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.0", "asks for YAML 1.0"),
        ("1.3", "asks for YAML 1.3"),
        ("2.0", "asks for YAML 2.0"),
        (f"1.{'9' * 5000}", "asks for a YAML that is not known"),
    ],
)
def test_a_yaml_that_is_not_read_is_named_with_its_place(version: str, words: str) -> None:
    with pytest.raises(SpecError) as told:
        parse(f"# first\n%YAML {version}\n---\na: 1\n", "e.yaml")

    (problem,) = told.value.problems
    assert words in problem.what
    assert (problem.line, problem.column) == (2, 1)
    assert problem.expected == "YAML 1.2, or 1.1"
    assert problem.fix


COMMENTED = """
# {many}
a: 1  # beside a value
# {many}
b:  # beside a key
  # {many}
  - |  # beside a mark
    text
    # of the text
  # {many}

  - [1,  # in brackets
     # {many}
     2]
# {many}
"""


def test_comments_are_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was appended to all those before it: 4 MiB of lines of `#` took minutes, now 5 s."""
    made: list[str] = []
    inner = tokens.CommentToken.__init__

    def counted(self: Any, value: str, *marks: Any, **more: Any) -> None:
        made.append(value)
        inner(self, value, *marks, **more)

    monkeypatch.setattr(tokens.CommentToken, "__init__", counted)
    document = parse(COMMENTED.replace("{many}", "\n  #" * 50), "e.yaml")

    assert document.data == {"a": 1, "b": ["text\n# of the text\n", [1, 2]]}
    assert document.place(("b", 1, 1)) == (COMMENTED.count("\n", 0, COMMENTED.index("2]")) + 251, 6)
    assert len(made) < 5
