"""The form of an input, as a task takes it."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from domo.names import prints

MAX_NAME = 200
"""Characters of a text in it."""
MAX_NUMBERS = 1024
"""Of a mean or a standard deviation, one for each channel."""
MAX_SIZES = 16
"""Of a shape."""


def printable(text: str) -> str:
    """See that it is one line for people."""
    if not prints(text):
        raise ValueError("must be one line of printable characters")
    return text


Line = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(printable)]
Size = Annotated[int, Field(ge=0, lt=2**31)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[tuple[Finite, ...], Field(max_length=MAX_NUMBERS)]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class InputForm:
    """What one input of the model is; what is empty is not said.

        InputForm((3, 64, 64), channels="RGB", values="0..1", mean=(0.5,) * 3, std=(0.25,) * 3)

    A size that may be any is None: `InputForm((3, None, None))`.
    """

    shape: Annotated[tuple[Size | None, ...], Field(max_length=MAX_SIZES)] | None = None
    """Without the batch; () is a single number."""
    channels: Line = ""
    """RGB, BGR, grey, T1+T2, ...: what they are, in their order."""
    dtype: Line = ""
    """Such as float32."""
    values: Line = ""
    """The range of values, such as 0..1, before the mean is taken off."""
    aspect: Line = ""
    """What becomes of images of another shape: squeeze, pad or crop."""
    value_range: tuple[Finite, Finite] | None = None
    """The values of a file that become 0 and 1, where that can be set."""
    mean: Numbers = ()
    """What is taken off, for each channel."""
    std: Numbers = ()
    """What is divided by, for each channel."""
