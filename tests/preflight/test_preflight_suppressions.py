from __future__ import annotations

import pytest

from preflight.source import Source
from preflight.suppressions import Suppression, read_suppressions

RULE = "default-device-set"


def only(text: str, language: str = "python") -> Suppression:
    found = read_suppressions(Source("a", text.encode()), language)
    assert len(found) == 1
    return found[0]


def test_trailing_comment_covers_its_line() -> None:
    item = only(f"x = 1\ny = 2  # preflight: ignore[{RULE}] -- why\nz = 3\n")

    assert (item.first, item.last, item.reason, item.problem) == (2, 2, "why", "")


def test_comment_behind_the_last_bracket_covers_the_statement() -> None:
    item = only(f"x = 1\ny = f(\n    2,\n)  # preflight: ignore[{RULE}] -- why\n")

    assert (item.first, item.last) == (2, 4)


def test_comment_on_its_own_line_covers_the_next_logical_line() -> None:
    item = only(f"# preflight: ignore[{RULE}] -- why\n\ny = f(\n    2,\n)\nz = 3\n")

    assert (item.first, item.last) == (3, 5)


def test_comment_above_a_compound_statement_covers_its_header_only() -> None:
    item = only(f"# preflight: ignore[{RULE}] -- why\nfor x in (\n    1,\n):\n    pass\n")

    assert (item.first, item.last) == (2, 4)


def test_comment_above_a_decorator_covers_the_def_line() -> None:
    item = only(f"# preflight: ignore[{RULE}] -- why\n@deco\ndef f():\n    pass\n")

    assert (item.first, item.last) == (2, 3)


def test_reason_goes_on_in_the_next_comment_lines() -> None:
    item = only(f"# preflight: ignore[{RULE}] -- a long\n# reason\nx = 1\n")

    assert item.reason == "a long reason"
    assert (item.first, item.last) == (3, 3)


def test_yaml_comment_covers_the_node() -> None:
    item = only(f"a: 1\n# preflight: ignore[{RULE}] -- why\nb:\n  c: 2\n  d: 3\ne: 4\n", "yaml")

    assert (item.first, item.last) == (3, 5)


def test_cuda_comments_of_both_styles() -> None:
    text = (
        f"// preflight: ignore[{RULE}] -- why\nf(1,\n  2);\n"
        f"g(); /* preflight: ignore[{RULE}] -- why */\n"
    )
    first, second = read_suppressions(Source("a", text.encode()), "cuda")

    assert (first.first, first.last) == (2, 3)
    assert (second.first, second.last) == (4, 4)


def test_text_in_a_string_is_no_suppression() -> None:
    python = Source("a", b'x = "# preflight: ignore[a] -- b"\n')
    cuda = Source("a", b'auto x = "// preflight: ignore[a] -- b";\n')
    yaml = Source("a", b'x: "# preflight: ignore[a] -- b"\n')

    assert read_suppressions(python, "python") == []
    assert read_suppressions(cuda, "cuda") == []
    assert read_suppressions(yaml, "yaml") == []


@pytest.mark.parametrize(
    "comment",
    [
        "preflight: ignore",
        "preflight: ignore -- why",
        "preflight: ignore[] -- why",
        f"preflight: ignore[{RULE}] because",
        f"preflight: ignore[{RULE}] until=soon -- why",
        f"preflight: ignore[{RULE}] until=2027-13-40 -- why",
        f"preflight: disable[{RULE}] -- why",
    ],
)
def test_malformed_comment_is_a_problem_and_covers_nothing(comment: str) -> None:
    item = only(f"x = 1  # {comment}\n")

    assert item.problem


def test_file_that_does_not_tokenize_still_gives_the_comments_before_the_error() -> None:
    item = only(f"x = 1  # preflight: ignore[{RULE}] -- why\ny = (\n")

    assert item.first == 1


def test_suppression_survives_crlf_and_a_byte_order_mark() -> None:
    data = b"\xef\xbb\xbfx = 1\r\ny = 2  # preflight: ignore[a] -- why\r\n"
    (item,) = read_suppressions(Source("a", data), "python")

    assert (item.line, item.column, item.reason) == (2, 8, "why")
    assert data[item.cut_start : item.cut_end] == b"  # preflight: ignore[a] -- why"
