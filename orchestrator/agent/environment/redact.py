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
# Every repetition below is bounded: these run over whatever a tool of a sick host prints.
_TOKEN_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{10,400}\.[\w.-]{10,})"
)
_URL_USER = re.compile(r"(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,200}(?=@)")
_NAME = r"(?<![\w.-])({dashes}[A-Za-z][\w.-]{{0,80}})"
_VALUE = r"([^\s<>\"',;]+)"
_ASSIGNMENT = re.compile(_NAME.format(dashes="-{0,2}") + r"([ \t]{0,4}[=:][ \t]{0,4})" + _VALUE)
_OPTION = re.compile(_NAME.format(dashes="--?") + r"([ \t]{1,4})(?!-)" + _VALUE)


def looks_secret(name: str) -> bool:
    """Whether a variable or option of this name may hold a secret."""
    return any(_SECRET_WORD.fullmatch(word) for word in _WORD_BREAK.split(name) if word)


def redacted(text: str) -> str:
    """The text with the values of secret-looking names, tokens and passwords in URLs taken out."""
    for pattern in (_ASSIGNMENT, _OPTION):
        text = pattern.sub(_withhold, text)
    text = _URL_USER.sub(MARK, text)
    return _TOKEN_SHAPE.sub(MARK, text)


def _withhold(match: re.Match[str]) -> str:
    name, between, _ = match.groups()
    return f"{name}{between}{MARK}" if looks_secret(name) else match.group(0)
