"""What a silo's data mean, as a value that crosses the wire: small, checked, no data in it."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from domo.errors import ProtocolError
from domo.inputs.form import MAX_NAME, InputForm, Line, Size, printable

MAX_BYTES = 64 * 1024
"""Of the JSON."""
MAX_CLASSES = 10_000

ClassName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(printable)]
Label = Annotated[int, Field(ge=-(2**53), le=2**53)]
Kind = Literal["", "0..1", "0..255", "above 255", "around 0", "wide"]
"""How large the numbers are that a model gets; empty: not known, or of no kind that tells."""


def no_name_twice(names: Sequence[str]) -> Sequence[str]:
    """See that no class is named twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"names the class {name} twice")
        seen.add(name)
    return names


class Meaning(BaseModel):
    """What the numbers of a silo's data stand for; what is empty is not said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    classes: Annotated[
        tuple[ClassName, ...], Field(max_length=MAX_CLASSES), AfterValidator(no_name_twice)
    ] = ()
    """Names, in the order of their numbers."""
    num_classes: Size = 0
    """How many there are, where they have no names."""
    input: InputForm = InputForm()
    """What one input of the model is."""
    version: Line = ""
    """Of the task, as it says."""
    code: Line = ""
    """Digest of the code of a task of one's own (`domo.meaning.code`)."""
    torch: Line = ""
    """Its version of torch, without that of the build."""
    labels: tuple[Label, Label] | None = None
    """Measured: the lowest and the highest label."""
    kind: Kind = ""
    """Measured: how large the numbers are that the model gets."""

    def to_json(self) -> str:
        """All that is said, in one form for one meaning."""
        said = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def said(self) -> bool:
        """Whether anything is."""
        return self != NOTHING

    @property
    def digest(self) -> str:
        """Hex digest of the JSON."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, text: str, most: int = MAX_BYTES) -> Self:
        """From a peer, or a row. A field that is not known here is one that is not said.

        Raises:
            ProtocolError: Too long, or not of this form.
        """
        try:
            if len(text) > most or len(text.encode()) > most:
                raise ValueError(f"it has more than {most} bytes")
            said = _known(json.loads(text), cls.model_fields)
            if "input" in said:
                said["input"] = _known(said["input"], (f.name for f in fields(InputForm)))
            return cls.model_validate(said)
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            raise ProtocolError(f"what data mean cannot be read: {first_fault(error)}") from None

    def filled(self, other: "Meaning") -> Self:
        """This, and of another what is not said here."""
        form = {**_said(asdict(other.input)), **_said(asdict(self.input))}
        said = {**_said(dict(other)), **_said(dict(self))}
        return self.model_copy(update={**said, "input": InputForm(**form)})


NOTHING = Meaning()
"""Nothing is said."""


def first_fault(error: BaseException) -> str:
    """What pydantic says of the first thing that is wrong, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where} {fault['msg'].removeprefix('Value error, ')}"[:300]


def _known(said: Any, names: Iterable[str]) -> dict[str, Any]:
    given = dict(said)
    return {name: given[name] for name in names if name in given}


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None and v != () and v not in ("", 0)}
