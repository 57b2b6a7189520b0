"""A contact sheet: pictures in rows, each with its label below."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

COLUMNS = 8
SIDE = 112
"""Least side of a picture on the sheet, in pixels: smaller ones are shown with larger pixels."""
GAP, LINE = 10, 18
MOST_TEXT = 16
"""Characters of a label that have room."""
PAPER, INK, FAINT = (255, 255, 255), (20, 20, 20), (205, 205, 205)


class Picture(NamedTuple):
    """Pixels of shape (C, H, W), uint8, with one or three channels; and what is written below."""

    pixels: Tensor
    label: str


class Page(NamedTuple):
    """Pictures of one size, under a title."""

    title: str
    pictures: Sequence[Picture]


def draw(pages: Sequence[Page], path: Path) -> None:
    """Write a sheet, in the format that the file's name says.

    Raises:
        OSError, ValueError: It cannot be written, or there is no such format.
    """
    blocks = [_block(page) for page in pages]
    width = max(b.width for b in blocks)
    sheet = Image.new("RGB", (width, sum(b.height for b in blocks)), PAPER)
    top = 0
    for block in blocks:
        sheet.paste(block, (0, top))
        top += block.height
    sheet.save(path)


def _block(page: Page) -> Image.Image:
    font = ImageFont.load_default(size=13)
    _, height, width = page.pictures[0].pixels.shape
    times = max(1, -(-SIDE // max(height, width)))
    cell = max(width * times, SIDE), height * times
    rows = -(-len(page.pictures) // COLUMNS)
    size = (
        GAP + COLUMNS * (cell[0] + GAP),
        LINE + 2 * GAP + rows * (cell[1] + LINE + GAP),
    )
    block = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(block)
    pen.text((GAP, GAP), page.title, INK, font)
    for i, picture in enumerate(page.pictures):
        left = GAP + i % COLUMNS * (cell[0] + GAP)
        top = LINE + 2 * GAP + i // COLUMNS * (cell[1] + LINE + GAP)
        array = picture.pixels.permute(1, 2, 0).numpy()
        small = Image.fromarray(array if array.shape[2] == 3 else array[..., 0])
        large = small.resize((width * times, height * times), Image.Resampling.NEAREST)
        block.paste(large, (left, top))
        pen.rectangle((left - 1, top - 1, left + large.width, top + large.height), outline=FAINT)
        short = picture.label
        short = short if len(short) <= MOST_TEXT else short[: MOST_TEXT - 3] + "..."
        pen.text((left, top + cell[1] + 2), short, INK, font)
    return block
