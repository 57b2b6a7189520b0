"""A coordinator's answer as plain JSON in which every text is one printable line.

Whoever answers may be anybody: an address that was typed wrong, a coordinator that was taken over.
"""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from domo.errors import ProtocolError
from domo.names import MOST_SAID, one_line, printable

MOST_NUMBER = 1 << 63
"""No number of a coordinator is as large as this: none of SQL is."""
MOST_FAULTS = 50
"""Of a config that are shown of a refusal; it has hardly more settings."""
MOST_TIME = 32
"""Characters of what should be a time."""
_NOTES = "notes"
"""Of a run: several lines, as the admin wrote them."""
_CONFIG = "config"
"""Of a run: its digest is over it, and it is told as settings, each in one line."""
_JSON = TypeAdapter(object)


def plain_answer(data: str | bytes) -> Any:
    """The JSON of an answer, with each text and each key one printable line.

    Raises:
        ProtocolError: It is no JSON, or has a number that no coordinator says.
    """
    try:
        return _plain(_JSON.validate_json(data))
    except ValidationError as error:
        raise ProtocolError(not_understood("", error.errors()[0]["msg"])) from None


def not_understood(where: str, why: str) -> str:
    """What is said of an answer that is none."""
    what = one_line(f"{where}: {why}" if where else why)
    return (
        f"the answer is not what this version of domo understands ({what}). "
        "Is that a domo coordinator, and is it newer than this command? Update domo here"
    )


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return printable(value) if key == _NOTES else one_line(value, MOST_SAID)
    if isinstance(value, dict):
        if key == _CONFIG:
            return value
        return {one_line(name): _plain(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, int | float) and not -MOST_NUMBER <= value < MOST_NUMBER:  # or NaN
        raise ProtocolError(not_understood(key, "a number that no coordinator says"))
    return value
