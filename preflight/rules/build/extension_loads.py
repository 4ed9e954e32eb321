"""Calls that build a binary, and the words that show a key holds the content."""

from __future__ import annotations

import ast

from preflight.syntax.python import FunctionNode, PythonFile

LOADERS = frozenset(
    (
        "torch.utils.cpp_extension.load",
        "torch.utils.cpp_extension.load_inline",
    )
)
CONTENT_WORDS = (
    "hash",
    "digest",
    "sha",
    "md5",
    "blake",
    "fingerprint",
    "checksum",
    "crc",
    "cache_key",
    "tempfile",
    "mkdtemp",
    "tmp_path",
)
_COMPILERS = (
    "nvcc",
    "hipcc",
    "g++",
    "gcc",
    "clang",
    "c++",
    "ninja",
    "cmake",
    "make",
    "ptxas",
    "nvrtc",
)


def knows_content(file: PythonFile, scope: FunctionNode | ast.Module) -> bool:
    """Whether a name in a scope speaks of a content hash or a fresh folder."""
    for node in ast.walk(scope):
        word = ""
        if isinstance(node, ast.Name):
            word = node.id
        elif isinstance(node, ast.Attribute):
            word = node.attr
        elif isinstance(node, ast.keyword):
            word = node.arg or ""
        elif isinstance(node, ast.arg):
            word = node.arg
        if word and any(mark in word.lower() for mark in CONTENT_WORDS):
            return True
    return False


def builds_here(file: PythonFile, root: ast.AST) -> ast.Call | None:
    """A call below `root` that runs a compiler."""
    for call, name in file.calls_in(root):
        if name in LOADERS:
            return call
        if name.startswith("subprocess.") or name in ("os.system", "run_command"):
            words = [
                n.value
                for n in ast.walk(call)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            if any(_is_compiler(word) for text in words for word in text.split()):
                return call
            if any(_is_compiler_name(n) for n in ast.walk(call)):
                return call
        if name.rsplit(".", 1)[-1] in (
            "compile_cuda",
            "build_extension",
            "compile_kernel",
            "nvcc",
            "compile_ptx",
        ):
            return call
    return None


def _is_compiler(word: str) -> bool:
    return word.rsplit("/", 1)[-1] in _COMPILERS


def _is_compiler_name(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and (
        (node.id if isinstance(node, ast.Name) else node.attr).lower()
        in ("nvcc", "hipcc", "nvcc_path", "compiler", "cxx")
    )
