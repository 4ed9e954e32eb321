"""Keep secrets out of everything a snapshot stores, by the look of their names.

A value is withheld when its name looks like a secret's, or when it has the shape of a known token.
"""

from __future__ import annotations

import re

MARK = "[withheld]"

# `TOKENIZERS_PARALLELISM` is no secret and `HF_TOKEN` is: words end where the name's words end.
_SECRET_WORD = re.compile(
    r"\w*(TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PWD|CREDENTIALS?|CREDS?|COOKIES?|KEYS?|AUTH"
    r"|BEARER|AUTHORIZATION|SIGNATURE|PRIVATE|SESSION|PAT|DSN|WEBHOOK|APIKEYS?)",
    re.IGNORECASE,
)
_WORD_BREAK = re.compile(r"[-_.\s]+")
_TOKEN_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_URL_USER = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_ASSIGNMENT = re.compile(r"(?<![\w-])((?:--?)?[A-Za-z][\w.-]*)(\s*[=:]\s*|\s+)([^\s<>\"',;]+)")


def looks_secret(name: str) -> bool:
    """Whether a variable or option of this name may hold a secret."""
    return any(_SECRET_WORD.fullmatch(word) for word in _WORD_BREAK.split(name) if word)


def redacted(text: str) -> str:
    """The text with the values of secret-looking names, tokens and passwords in URLs taken out."""
    text = _ASSIGNMENT.sub(_withhold, text)
    text = _URL_USER.sub(MARK, text)
    return _TOKEN_SHAPE.sub(MARK, text)


def _withhold(match: re.Match[str]) -> str:
    name, between, _ = match.groups()
    option_with_value = name.startswith("-") or "=" in between
    if option_with_value and looks_secret(name):
        return f"{name}{between}{MARK}"
    return match.group(0)
