"""One form of bytes for what a line says: RFC 8785, for values that have one form only.

Numbers are whole and below 2^53, so that no two programs write them in two ways; keys are in the
order of UTF-16; nothing is escaped that need not be.
"""

import json
from collections.abc import Mapping
from typing import Any

MOST_WHOLE = 2**53 - 1


def canonical(value: Mapping[str, Any]) -> bytes:
    """A table as canonical JSON.

    Args:
        value: Strings, whole numbers, booleans, None, lists and tables of these.

    Raises:
        ValueError: Something else, or text that is no Unicode.
    """
    return json.dumps(
        _ordered(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("keys are text")
        return {k: _ordered(value[k]) for k in sorted(value, key=lambda k: k.encode("utf-16-be"))}
    if isinstance(value, list | tuple):
        return [_ordered(one) for one in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) <= MOST_WHOLE:
        return value
    raise ValueError(f"{value!r} has no canonical form")
