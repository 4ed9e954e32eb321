"""A kernel is fast for a shape and a mode, not for a layer's name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.python import PythonFile
from preflight.syntax.yaml import YamlFile, YamlNode, entries, items

RULE = Rule(
    name="whitelist-key-incomplete",
    code="EXP006",
    title="A kernel whitelist or tuning table is keyed without N, K and mode",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="under another tensor-parallel degree the same name means another shape, where "
    "the kernel may lose or not "
    "even launch",
    help='key by N, K and kernel mode, such as `(5120, 8704, "rows4")`',
    needs=(b"list", b"LIST", b"tun", b"TUN"),
    fix=Grade.DISPLAY,
)
_TABLE = re.compile(
    r"^_?(?:(?:tp\d*|kernel|shape|gemm|gemv|layer)s?_)+(?:white|allow)list$"
    r"|^_?whitelist$|^_?(?:\w+_)?(?:tuned|tuning)_(?:table|configs?|shapes?|kernels?|gemms?)$",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"\d+\D+\d+")
_MODE_KEYS = frozenset(("mode", "kernel", "kernel_mode", "variant", "rows", "rows_per_block"))


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "test" in file.roles:
        return
    tables: list[ast.Assign | ast.AnnAssign] = [*file.nodes(ast.Assign), *file.nodes(ast.AnnAssign)]
    for node in tables:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        if _TABLE.match(name) and node.value is not None:
            keys = _keys(node.value)
            if keys and all(_is_incomplete(key) for key in keys):
                yield file.hit(
                    file.at(keys[0]),
                    f"the keys of `{name}` do not hold N, K and mode: `{file.text(keys[0])}`",
                )


def _keys(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.Dict):
        return [key for key in value.keys if key is not None]
    if isinstance(value, (ast.Set, ast.List, ast.Tuple)):
        return list(value.elts)
    if isinstance(value, ast.Call) and value.args:
        return _keys(value.args[0])
    return []


def _is_incomplete(key: ast.expr) -> bool:
    """A bare name, or a tuple too short for two extents and a mode; other forms pass."""
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return not (_SHAPE.search(key.value) and re.search(r"[A-Za-z]{2}", key.value))
    if isinstance(key, ast.Tuple):
        plain = all(isinstance(item, ast.Constant) for item in key.elts)
        return plain and len(key.elts) < 3
    return False


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    table = file.get("whitelist")
    if table is None:
        return
    for entry in items(table):
        missing = _missing(entry)
        if missing:
            yield file.hit(file.at(entry), f"the whitelist entry lacks {', '.join(missing)}")


def _missing(entry: YamlNode) -> list[str]:
    keys = {key.value.lower() for key, _ in entries(entry)}
    missing = [f"`{name}`" for name in ("n", "k") if name not in keys]
    return missing if keys & _MODE_KEYS else [*missing, "`mode`"]
