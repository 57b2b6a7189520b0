"""From a decoded file to an input: its range, its channels, its size."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from domo.inputs.images import ImageSettings
from domo.tasks.images.decoding import Decoded, NotReadError

LUMINANCE = (0.299, 0.587, 0.114)
"""Of R, G and B, as ITU-R 601-2 has it and as Pillow does for 8 bits."""


def fitted(decoded: Decoded, images: ImageSettings) -> NDArray[np.uint8] | NDArray[np.float32]:
    """The pixels of an input, in 0..255; whole numbers where the file has 8 bits and no range.

    Returns:
        Shape (channels, height, width).

    Raises:
        NotReadError: What its values are to be is not known, or they cannot be what the run means.
    """
    if decoded.is_plain and images.range is None:
        whole = np.atleast_3d(np.asarray(fit(decoded.bands[0], images)))
        return whole.transpose(2, 0, 1)
    low, high = span(decoded, images)
    bands = decoded.bands[0].split() if decoded.is_plain else decoded.bands
    scaled = [_scaled(band, low, high, decoded.inverted) for band in bands]
    if images.channels == 1 and len(scaled) == 3:
        grey = sum(w * band for w, band in zip(LUMINANCE, scaled, strict=True))
        scaled = [np.asarray(grey, np.float32)]
    done = [np.asarray(fit(Image.fromarray(band), images)) for band in scaled]
    return np.stack(done if len(done) == images.channels else done * images.channels)


def span(decoded: Decoded, images: ImageSettings) -> tuple[float, float]:
    """The values of a file that become 0 and 255.

    Raises:
        NotReadError: They are not known, or the file cannot hold them.
    """
    bounds, asked = decoded.bounds, images.range
    if asked is None:
        if bounds is None:
            raise NotReadError(
                f"it has {decoded.depth}, here {decoded.low:g} to {decoded.high:g}, of which only "
                "the run can say what is black and white: images = { range = [LOW, HIGH] } in the "
                "run, such as [0, 1], [0, 4095], or [-1000, 400] for CT"
            )
        return bounds
    if bounds is not None and not bounds[0] <= asked[0] < asked[1] <= bounds[1]:
        raise NotReadError(
            f"it has {decoded.depth}, which hold {bounds[0]:g}..{bounds[1]:g}, and the run's "
            f"images.range is {asked[0]:g}..{asked[1]:g}: it was exported to another scale"
        )
    return asked


def _scaled(band: Image.Image, low: float, high: float, inverted: bool) -> NDArray[np.float32]:
    values = np.asarray(band, np.float32)
    scaled: NDArray[np.float32] = np.clip((values - low) * (255 / (high - low)), 0, 255)
    return 255 - scaled if inverted else scaled


def fit(image: Image.Image, images: ImageSettings) -> Image.Image:
    """An image of the settings' size; one that has it already is as it was."""
    size = images.width, images.height
    if image.size == size:
        return image
    if images.aspect == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    if images.aspect == "squeeze":
        return image.resize(size, Image.Resampling.BILINEAR)
    scale = min(size[0] / image.width, size[1] / image.height)
    inner = max(1, round(scale * image.width)), max(1, round(scale * image.height))
    framed = Image.new(image.mode, size, 0)
    corner = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    framed.paste(image.resize(inner, Image.Resampling.BILINEAR), corner)
    return framed
