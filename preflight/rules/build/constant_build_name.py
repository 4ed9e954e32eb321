"""One extension name for every version of its sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.build.extension_loads import LOADERS, knows_content
from preflight.syntax.python import PythonFile, argument, has_double_star, keyword, text_of

RULE = Rule(
    name="constant-build-name",
    code="BLD001",
    title="An extension is built under a constant name in a shared folder",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="two checkouts, architectures or flag sets share one build folder, and a run can "
    "load the binary of another",
    help="put a hash of sources, flags and architecture into `name` or `build_directory`",
    needs=(b"cpp_extension",),
    fix=Grade.DISPLAY,
    pitfalls=(10,),
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "test" in file.roles:
        return
    for call in file.calls_to(*LOADERS):
        name = text_of(argument(call, 0, "name"))
        if name is None or has_double_star(call) or _has_own_folder(file, call):
            continue
        yield file.hit(file.at(call), f"the extension `{name}` has one name for all its versions")


def _has_own_folder(file: PythonFile, call: ast.Call) -> bool:
    """A build folder that is not a constant, or an environment that moves all of them."""
    folder = keyword(call, "build_directory")
    if folder is not None and text_of(folder) is None:
        return True
    if b"TORCH_EXTENSIONS_DIR" in file.data:
        return True
    return knows_content(file, file.scope_of(call)) and file.function_of(call) is not None
