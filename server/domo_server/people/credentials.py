"""Secrets that people show: how they are made, and what is kept of them."""

import hashlib
import secrets

PREFIX = "domo_"
"""How tokens begin, for programs that look for secrets in places where they should not be."""
TOKEN_BYTES = 32
CODE_BYTES = 16
"""Of a code that is good once and for minutes."""


def new_token() -> str:
    """A token that nobody can guess: 256 bits."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def new_code() -> str:
    """A log-in code: 128 bits."""
    return secrets.token_urlsafe(CODE_BYTES)


def digest(secret: str) -> str:
    """What the database has of a secret.

    A plain hash is enough, as nobody can try 2^128 secrets; and as rows are found by it, the
    time of a look-up says nothing about the secret itself.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
