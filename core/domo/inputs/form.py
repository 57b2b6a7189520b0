"""The form of an input, as a task takes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputForm:
    """What one input of a model is; two silos with different forms mean different things.

    Attributes:
        shape: Without the batch.
        channels: Their order, `RGB` or `L` (grey); empty: they are no colours.
        dtype: As the model is fed.
        aspect: What becomes of images of another shape: squeeze, pad or crop; empty: no images.
        value_range: The values of a file that become 0 and 1; None: those of the file's own form.
        mean: Taken off each channel, in units of that range; empty: nothing is.
        std: What each channel is then divided by.
    """

    shape: tuple[int, ...]
    channels: str = ""
    dtype: str = "float32"
    aspect: str = ""
    value_range: tuple[float, float] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
