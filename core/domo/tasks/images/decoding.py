"""One image file, decoded with its full range: 8 bits as they are, more bits as numbers."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from domo.inputs.images import ImageSettings
from domo.tasks.images import dicom
from domo.tasks.images.kinds import suffix_of

FORMATS = ("PNG", "JPEG", "BMP", "DIB", "GIF", "TIFF", "WEBP", "AVIF", "PPM", "JPEG2000")
"""What is decoded, whatever a file is called; some others would start other programs."""
SUFFIXES = {
    "PNG": {".png", ".apng"},
    "JPEG": {".jpg", ".jpeg", ".jpe", ".jfif", ".pjp", ".pjpeg"},
    "MPO": {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"},
    "BMP": {".bmp", ".dib"},
    "DIB": {".bmp", ".dib"},
    "GIF": {".gif"},
    "TIFF": {".tif", ".tiff"},
    "WEBP": {".webp"},
    "AVIF": {".avif"},
    "PPM": {".pbm", ".pgm", ".ppm", ".pnm", ".pfm"},
    "JPEG2000": {".jp2", ".j2k"},
}
BYTES, WORDS = (0.0, 255.0), (0.0, 65535.0)
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What brings an image upright, by its EXIF orientation."""
PHOTOMETRIC, EXTRA, SAMPLE_FORMAT = 262, 338, 339
"""TIFF's tags for what 0 means, what further bands are, and what kind of numbers there are."""
BITS, SAMPLES, PLANAR = 258, 277, 284
"""TIFF's tags for bits a band, how many bands there are, and whether they lie apart."""
GREY = ("1", "L", "LA", "La", "I", "F")
"""Modes of one channel."""
WHITE_IS_ZERO, ALPHA, UNSIGNED, SIGNED = 0, {1, 2}, 1, 2
FIRST_FRAME = "several pages or frames, of which the first was read"
ON_WHITE = "transparent parts, laid on white"
TURNED = "turned upright as their EXIF says"
FOURTH = "a fourth band that is no alpha, left out"
FURTHER = "bands that are neither colour nor alpha, left out"
UPPER = "more than 8 bits a channel, of which the upper 8 are read"
MISNAMED = "of another kind than the name says, read by the content"


class NotReadError(ValueError):
    """Why a file is refused, in words."""


class NoImageError(ValueError):
    """A file of a kind that is read has no image in it: it is left out."""


@dataclass(slots=True)
class Decoded:
    """An image as its file has it.

    Attributes:
        bands: One image of numbers for each channel, 1 or 3 of them; or one 8-bit image, L or RGB.
        depth: What its numbers are, for people.
        bounds: The least and the largest that they could be; None: not known.
        low: The least of them.
        high: The largest of them.
        inverted: Its least number is white.
        grey: Its file has one channel.
        notes: What was done that is to be said.
    """

    bands: Sequence[Image.Image]
    depth: str
    bounds: tuple[float, float] | None
    low: float
    high: float
    inverted: bool = False
    grey: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.bands[0].size

    @property
    def is_plain(self) -> bool:
        """Whether it is one 8-bit image."""
        return self.bands[0].mode in ("L", "RGB")


def decode(path: Path, images: ImageSettings) -> Decoded:
    """Read a file.

    Raises:
        NotReadError: It is not read; says why.
        NoImageError: There is no image in it.
        Exception: Whatever a decoder raises on a file that is damaged.
    """
    if dicom.is_dicom(path):
        return _of_dicom(path)
    with Image.open(path, formats=FORMATS) as image:
        notes = []
        if getattr(image, "is_animated", False) and image.format != "MPO":
            notes.append(FIRST_FRAME)
        if suffix_of(path.name) not in SUFFIXES.get(image.format or "", ()):
            notes.append(MISNAMED)
        decoded = _decoded(image, path, images)
        if turn := TURNS.get(_orientation(image)):
            decoded.bands = [band.transpose(turn) for band in decoded.bands]
            notes.append(TURNED)
        decoded.grey = image.mode in GREY or image.mode.startswith("I;")
    decoded.notes += notes
    return decoded


def _decoded(image: Image.Image, path: Path, images: ImageSettings) -> Decoded:
    mode, raw, top = image.mode, _raw_mode(image), _top(image)
    image.load()
    tags: Mapping[int, Any] = getattr(image, "tag_v2", {})
    signed = set(_several(tags.get(SAMPLE_FORMAT, UNSIGNED))) == {SIGNED}
    deep = mode in ("RGB", "RGBA", "RGBX") and max(_several(tags.get(BITS, 8))) > 8
    if deep and (tags.get(PLANAR, 1) != 1 or ";16" not in raw):
        raise NotReadError(
            "it has more than 8 bits a channel, and its channels apart: save it as RGB of 16 bits "
            "with its channels together"
        )
    if (mode == "I" or ";16" in raw) and "transparency" in image.info:
        raise NotReadError("it has 16 bits a channel and a clear colour: save it without")
    if mode in ("L", "RGB") and signed:
        raise NotReadError("it has signed numbers of 8 bits: save them as 16 bits or floats")
    if mode in ("RGBA", "RGBX") and tags and not set(_several(tags.get(EXTRA, 0))) & ALPHA:
        return _first_three(image, raw, path, images)
    if mode.startswith("I;16"):
        white_is_zero = tags.get(PHOTOMETRIC) == WHITE_IS_ZERO
        return _numbers(np.asarray(image), "16 bits", WORDS, white_is_zero)
    if mode == "I" and 0 < top < WORDS[1]:
        values = np.rint(np.asarray(image) * (top / WORDS[1]))  # Pillow spreads them over 16 bits
        return _numbers(values, f"{top.bit_length()} bits", (0.0, float(top)))
    if mode == "I" and image.format in ("PNG", "PPM"):
        return _numbers(np.asarray(image), "16 bits", WORDS)
    if mode == "I" and tags and not signed:
        return _numbers(np.asarray(image).view(np.uint32), "32-bit integers", None)
    if mode == "I":
        return _numbers(np.asarray(image), "signed or 32-bit integers", None)
    if mode == "F":
        return _numbers(np.asarray(image), "floats", None)
    if ";16" in raw and mode in ("RGB", "RGBA", "LA", "RGBX"):
        return _deep_colour(image, raw, path)
    decoded = _bytes(image, "L" if images.channels == 1 else "RGB")
    if ";16" in raw or top > BYTES[1]:
        decoded.depth = "more than 8 bits, read as 8"
        decoded.notes.append(UPPER)
    if tags.get(SAMPLES, 1) > len(image.getbands()):
        decoded.notes.append(FURTHER)
    return decoded


def _first_three(image: Image.Image, raw: str, path: Path, images: ImageSettings) -> Decoded:
    """A TIFF of four bands of which the last is no alpha, such as near infrared."""
    if ";16" in raw:
        decoded = _deep_colour(image, raw, path, alpha=False)
    else:
        upper = Image.merge("RGB", image.split()[:3])
        decoded = _bytes(upper, "L" if images.channels == 1 else "RGB")
    decoded.notes.append(FOURTH)
    return decoded


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _raw_mode(image: Image.Image) -> str:
    """How the file has its pixels, where that is more than the image's mode can hold."""
    tile: Any = getattr(image, "tile", None)
    args = tile[0][3] if tile else ""
    return str(args[0] if isinstance(args, tuple) and args else args)


def _top(image: Image.Image) -> int:
    """What a PPM says its largest number is; 0 of other kinds of file."""
    tile: Any = getattr(image, "tile", None)
    args = tile[0][3] if image.format == "PPM" and tile else ()
    return int(args[1]) if isinstance(args, tuple) and len(args) == 2 else 0


def _bytes(image: Image.Image, mode: str) -> Decoded:
    """An image of at most 8 bits a channel, as L or RGB."""
    notes = []
    if image.mode in ("LA", "PA", "La", "RGBA", "RGBa") or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = clear.convert("RGB")
        alpha = clear.getchannel("A")
        if alpha.getextrema() != (255, 255):
            white = Image.new("RGB", image.size, (255, 255, 255))
            image = Image.composite(image, white, alpha)
            notes.append(ON_WHITE)
    elif image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        turned = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert turned is not None
        image = turned
    elif image.mode not in ("L", "RGB", "1", "P"):
        image = image.convert("RGB")
    if image.mode != mode:
        image = image.convert(mode)
    image.load()
    ends: Any = image.getextrema()
    low, high = ends if mode == "L" else (min(e[0] for e in ends), max(e[1] for e in ends))
    return Decoded([image], "8 bits", BYTES, low, high, notes=notes)


def _deep_colour(image: Image.Image, raw: str, path: Path, alpha: bool = True) -> Decoded:
    """Colour of 16 bits a channel, of which Pillow keeps the upper 8: the lower ones are read too.

    In the other order of bytes, what Pillow keeps is the other half.
    """
    if image.mode not in ("RGB", "RGBA") or raw.startswith("LA"):
        raise NotReadError("it has 16 bits a channel and an alpha channel: save it without")
    order = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}[raw[-1]]
    by_alpha = raw.startswith("RGBa")  # Pillow would divide by it, in 8 bits
    whole = raw.replace("RGBa", "RGBA")
    upper = _half(path, whole) if by_alpha else np.asarray(image)
    values = upper.astype(np.uint16) * 256 + _half(path, whole[:-1] + order)
    notes = []
    if image.mode == "RGBA":
        opacity = values[..., 3:].astype(np.float64) / WORDS[1]
        values = values[..., :3]
        if alpha and opacity.min() < 1:
            values = values * (1 if by_alpha else opacity) + WORDS[1] * (1 - opacity)
            notes.append(ON_WHITE)
    decoded = _numbers(values, "16 bits", WORDS)
    decoded.notes += notes
    return decoded


def _half(path: Path, raw: str) -> NDArray[Any]:
    """The bytes of an image that a raw mode takes."""
    with Image.open(path, formats=FORMATS) as again:
        there: Any = again
        there.tile = [_in_raw_mode(tile, raw) for tile in there.tile]
        again.load()
        return np.asarray(again)


def _in_raw_mode(tile: Any, raw: str) -> Any:
    *place, args = tile
    new = (raw, *args[1:]) if isinstance(args, tuple) else raw
    return tile._replace(args=new) if hasattr(tile, "_replace") else (*place, new)


def _numbers(
    values: NDArray[Any],
    depth: str,
    bounds: tuple[float, float] | None,
    inverted: bool = False,
) -> Decoded:
    """An image of numbers, of shape (H, W) or (H, W, channels)."""
    if not np.isfinite(values).all():
        raise NotReadError(
            f"{np.count_nonzero(~np.isfinite(values)):,} of its {values.size:,} values are not "
            "finite (NaN or infinite)"
        )
    cube = np.atleast_3d(values).astype(np.float32)
    bands = [Image.fromarray(np.ascontiguousarray(cube[..., c])) for c in range(cube.shape[2])]
    return Decoded(bands, depth, bounds, float(values.min()), float(values.max()), inverted)


def _orientation(image: Image.Image) -> int:
    if "exif" not in image.info and image.format not in ("TIFF", "MPO", "WEBP", "AVIF"):
        return 1
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # a damaged EXIF says nothing
        return 1


def _of_dicom(path: Path) -> Decoded:
    found = dicom.read(path)
    if found is None:
        raise NoImageError("DICOM without pixels, left out")
    decoded = _numbers(found.values, found.depth, found.bounds, found.inverted)
    if found.num_frames > 1:
        decoded.notes.append(FIRST_FRAME)
    return decoded
