"""What may be changed of a run at any time: what people say of it, not what it is."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr

MOST_TAGS = 20
MOST_TAG = 40
MOST_NOTES = 4000
"""Characters."""


def _tag(text: str) -> str:
    words = " ".join(text.split())
    if not words or not words.isprintable() or "," in words or len(words) > MOST_TAG:
        raise ValueError(
            f"a tag is one line of 1 to {MOST_TAG} characters that can be printed, without commas"
        )
    return words


def _notes(text: str) -> str:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not all(c.isprintable() or c in "\n\t" for c in plain):
        raise ValueError("notes have a character that cannot be printed")
    return plain


def _once(tags: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(tags))


class RunEdit(BaseModel):
    """A change of a run; what is None stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tags: (
        Annotated[
            tuple[Annotated[StrictStr, AfterValidator(_tag)], ...],
            Field(max_length=MOST_TAGS),
            AfterValidator(_once),
        ]
        | None
    ) = None
    """In place of those that it has."""
    notes: Annotated[StrictStr, Field(max_length=MOST_NOTES), AfterValidator(_notes)] | None = None
    """In place of those that it has; plain text of several lines, shown as it is."""
    archived: StrictBool | None = None
    """Whether lists leave it out unless they are asked for it; nothing of it is deleted."""
