"""How image files become inputs: a part of a run, so that all silos do the same."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Bound = Annotated[float, Field(ge=-1e38, le=1e38, allow_inf_nan=False)]
Side = Annotated[int, Field(ge=8, le=2048)]


class ImageSettings(BaseModel):
    """How image files become inputs; the defaults are what named tasks do where nothing is said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Side | tuple[Side, Side] = 32
    """Pixels: of a square, or height and width."""
    channels: Literal[1, 3] = 3
    """3: RGB, grey files three times the same. 1: grey, colour files by their luminance."""
    aspect: Literal["squeeze", "pad", "crop"] = "squeeze"
    """Files of another shape: squeezed to `size`, padded with black, or cut at the longer side."""
    range: tuple[Bound, Bound] | None = None
    """The values of a file that become 0 and 1; those beyond are cut off. None: all that the
    file's own form can hold, 0..255 of 8 bits and 0..65535 of 16."""

    @model_validator(mode="after")
    def _ascends(self) -> "ImageSettings":
        if self.range is not None and self.range[0] >= self.range[1]:
            raise ValueError(
                f"range must ascend, such as [0, 4095]; got [{self.range[0]:g}, {self.range[1]:g}]"
            )
        return self

    @property
    def height(self) -> int:
        """Pixels."""
        return self.size if isinstance(self.size, int) else self.size[0]

    @property
    def width(self) -> int:
        """Pixels."""
        return self.size if isinstance(self.size, int) else self.size[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one input: channels, height, width."""
        return (self.channels, self.height, self.width)
