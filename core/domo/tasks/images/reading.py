"""All images of a part: decoded, fitted, and looked at together."""

import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from rich.console import Console
from rich.progress import track
from torch import Tensor
from xxhash import xxh3_64_intdigest

from domo.errors import DataError
from domo.inputs.images import ImageSettings
from domo.names import shown
from domo.tasks.images.decoding import Decoded, NoImageError, NotReadError, decode
from domo.tasks.images.fitting import fitted
from domo.tasks.images.kinds import HEAD, counted, enumerated, what_it_is
from domo.tasks.images.walk import LabelledFile

logger = logging.getLogger(__name__)

T = TypeVar("T")
FEW = 1 / 8
"""Share of the range below which the values of a whole part are hardly an image."""
ALIKE = 0.02
"""Difference of two aspects that nobody sees."""
BECOME = {
    "squeeze": "of another shape, squeezed (images.aspect in the run keeps it)",
    "pad": "of another shape, between black bars",
    "crop": "of another shape, cut at both ends",
}
NAMED = 20
"""Files that the log names where more are wrong."""


def progress(items: Sequence[T], description: str, show_from: int = 2000) -> Iterable[T]:
    """Go through items behind a progress bar, on a terminal and where there are enough of them."""
    console = Console(stderr=True)
    hidden = len(items) < show_from or not console.is_terminal
    return track(items, description, console=console, disable=hidden, transient=True)


class Pixels(NamedTuple):
    """The images of a part in memory.

    Attributes:
        pixels: Shape (N, channels, height, width); uint8, or float32 in 0..255.
        labels: Shape (N,), int64.
        facts: What they are, for people: forms, values, sizes.
        notes: What should be known of them.
    """

    pixels: Tensor
    labels: Tensor
    facts: list[str]
    notes: list[str]


@dataclass(slots=True)
class _Depth:
    """The files of one depth."""

    bounds: tuple[float, float] | None
    count: int = 0
    low: float = float("inf")
    high: float = float("-inf")


@dataclass(slots=True)
class _Tally:
    """What the files of a part are together."""

    depths: dict[str, _Depth] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    small: tuple[int, int] = (1 << 30, 1 << 30)
    large: tuple[int, int] = (0, 0)
    grey: int = 0
    files: int = 0
    reshaped: int = 0

    def add(self, decoded: Decoded, path: Path, images: ImageSettings) -> None:
        depth = self.depths.setdefault(decoded.depth, _Depth(decoded.bounds))
        depth.count += 1
        depth.low, depth.high = min(depth.low, decoded.low), max(depth.high, decoded.high)
        self.small, self.large = min(self.small, decoded.size), max(self.large, decoded.size)
        self.files += 1
        self.grey += decoded.grey
        width, height = decoded.size
        self.reshaped += abs(width * images.height / (height * images.width) - 1) > ALIKE
        for note in decoded.notes:
            self.note(note, path)

    def note(self, text: str, path: Path) -> None:
        self.notes[text] += 1
        self.examples.setdefault(text, shown(path))

    def facts(self, images: ImageSettings) -> list[str]:
        depths = (
            f"{d.count:,} of {name}, values {d.low:g} to {d.high:g}"
            for name, d in sorted(self.depths.items())
        )
        sizes = "x".join(map(str, self.small))
        if self.large != self.small:
            sizes += " to " + "x".join(map(str, self.large))
        colour = self.files - self.grey
        mixed = f"; {self.grey:,} grey, {colour:,} in colour" if self.grey and colour else ""
        shape = f"; {self.reshaped:,} {BECOME[images.aspect]}" if self.reshaped else ""
        return [f"{'; '.join(depths)}; {sizes} pixels{mixed}{shape}"] if self.files else []


def read(files: Sequence[LabelledFile], images: ImageSettings, where: str) -> Pixels:
    """Read image files as the settings say.

    Args:
        files: What was found.
        images: The run's settings.
        where: Their folder, for texts.

    Raises:
        DataError: Names the files that cannot be read, and why; or the values of all of them are
            not what the run means.
    """
    pixels: NDArray[Any] = _room(len(files), images, np.uint8)
    labels: list[int] = []
    tally, refused, alike = _Tally(), list[tuple[Path, str]](), dict[int, LabelledFile]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, on files that it reads
        for file in progress(files, "reading images"):
            try:
                decoded = decode(file.path, images)
                one = fitted(decoded, images)
            except NoImageError as skipped:
                tally.note(str(skipped), file.path)
                continue
            except Exception as error:  # a decoder can raise anything on a damaged file
                refused.append((file.path, _reason(file.path, error)))
                continue
            if one.dtype != pixels.dtype and pixels.dtype == np.uint8:
                pixels = _deeper(pixels, len(labels), images)
            i = len(labels)
            pixels[i] = one
            labels.append(file.label)
            tally.add(decoded, file.path, images)
            other = alike.setdefault(xxh3_64_intdigest(pixels[i].data), file)
            if other.label != file.label:
                tally.note("the pixels of an image of another class", file.path)
    if refused:
        raise DataError(_refusal(refused, len(files)))
    notes = list(_judged(tally, images, where))
    kept = torch.from_numpy(pixels[: len(labels)])
    return Pixels(kept, torch.tensor(labels, dtype=torch.int64), tally.facts(images), notes)


def _room(n: int, images: ImageSettings, dtype: type[np.generic]) -> NDArray[Any]:
    """Memory for all of them.

    Raises:
        DataError: This machine has less.
    """
    needed = n * math.prod(images.shape) * np.dtype(dtype).itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise DataError(
            f"{n:,} images of {'x'.join(map(str, images.shape))} as {np.dtype(dtype)} need "
            f"{needed / 1e9:,.1f} GB of memory, and this machine has {there / 1e9:,.1f}: a smaller "
            "images.size in the run, or a task of your own that reads as it trains"
        )
    return np.empty((n, *images.shape), dtype)


def _deeper(pixels: NDArray[Any], done: int, images: ImageSettings) -> NDArray[Any]:
    """The same in float32."""
    deep = _room(len(pixels), images, np.float32)
    deep[:done] = pixels[:done]
    return deep


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "the user that domo runs as may not read it"
    if path.is_file() and not path.stat().st_size:
        return "it is empty (0 bytes)"
    if isinstance(error, UnidentifiedImageError):
        with path.open("rb") as file:
            return what_it_is(file.read(HEAD))
    if isinstance(error, Image.DecompressionBombError):
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        return f"it has more than {most:.0f} million pixels: make it smaller"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, NotReadError) else f"it cannot be decoded: {text[:300]}"


def _refusal(refused: Sequence[tuple[Path, str]], num_files: int) -> str:
    path, reason = refused[0]
    first = f"{shown(path)} cannot be read as an image: {shown(reason)}"
    if len(refused) == 1:
        broken = reason.startswith(("it cannot be decoded", "it is damaged", "it is empty"))
        return f"{first}. Mend it, or take it away" if broken else first
    others = enumerated((shown(p) for p, _ in refused[1:]), NAMED)
    logger.error("these cannot be read as images either: %s", others)  # names stay at the site
    return f"{len(refused):,} of {num_files:,} files cannot be read as images. {first}"


def _judged(tally: _Tally, images: ImageSettings, where: str) -> Iterable[str]:
    """Notes on the values of all files together.

    Raises:
        DataError: They use next to nothing of what is to be black to white.
    """
    for name, depth in tally.depths.items():
        bounds = images.range or depth.bounds
        assert bounds is not None
        share = (depth.high - depth.low) / (bounds[1] - bounds[0])
        values = f"{depth.low:g} to {depth.high:g}"
        if images.range is not None:
            if depth.high <= bounds[0] or depth.low >= bounds[1]:
                raise DataError(
                    f"the images in {where} have values {values}, all outside of the run's "
                    f"images.range {bounds[0]:g}..{bounds[1]:g}: nothing would be left of them"
                )
            if depth.low < bounds[0] or depth.high > bounds[1]:
                yield (
                    f"in {where}, values {values} are cut off at the run's images.range "
                    f"{bounds[0]:g}..{bounds[1]:g}"
                )
        if share >= FEW:
            continue
        told = f"the images of {name} in {where} have values {values} only, of {bounds[0]:g}.."
        told += f"{bounds[1]:g}: hardly a difference would be left"
        if images.range is None and depth.bounds != (0, 255):
            top = next(t for t in (255, 1023, 4095, 16383, 65535) if depth.high <= t)
            said = f"range = [0, {top}] }}; " if top < bounds[1] else ""
            raise DataError(
                f"{told}. Say in the run what is black and white: images = {{ {said}"
                f"range = [{bounds[0]:g}, {bounds[1]:g}]{'' if said else ' }'} takes them as they "
                "are"
            )
        yield told
    if len(tally.depths) > 1:
        several = " and ".join(f"{d.count:,} of {n}" for n, d in sorted(tally.depths.items()))
        how = "the run's images.range" if images.range else "what its own form can hold"
        yield f"in {where}, files are mixed: {several}; each is scaled by {how}"
    for text, n in tally.notes.items():
        yield f"in {where}, {text}: {counted(n, 'file')}, {tally.examples[text]}"
