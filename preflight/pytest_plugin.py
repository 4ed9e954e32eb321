"""`pytest --preflight-guards=...`: each test runs under guards and fails on a catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from preflight.guard import GUARDS, UnknownGuard, make_guards

if TYPE_CHECKING:
    from preflight.guard import Guard


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("preflight")
    group.addoption(
        "--preflight-guards",
        default="",
        metavar="NAMES",
        help=f"run each test under these guards: {', '.join(sorted(GUARDS))}",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        make_guards(_names(config))
    except UnknownGuard as error:
        raise pytest.UsageError(f"--preflight-guards: {error}") from error


def _names(config: pytest.Config) -> list[str]:
    return [
        word.strip() for word in config.getoption("--preflight-guards").split(",") if word.strip()
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    guards: list[Guard] = make_guards(_names(item.config))
    with ExitStack() as stack:
        for guard in guards:
            stack.enter_context(guard)
        result = yield
    caught = [str(one) for guard in guards for one in guard.caught]
    if caught:
        pytest.fail("\n".join(caught), pytrace=False)
    return result
