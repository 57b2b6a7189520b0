"""Files, folders and names as people have them: what becomes of each. docs/data.md lists them.

A row makes a folder, and says what is read (levels and values of the input) or the text.
`write_table` prints the whole of it.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image, ImageCms

from domo.errors import DataError
from domo.inputs.images import ImageSettings
from domo.tasks import load_task
from domo.tasks.datasets import PixelDataset
from domo.tasks.images.finding import image_files

Make = Callable[[Path], None]
RAMP = np.arange(64 * 64).reshape(64, 64)
"""4,096 values, each once."""
MULTIPLIED = np.stack([RAMP * 8] * 3 + [np.full_like(RAMP, 32768)], 2).astype("<u2")
CUBE = np.stack([RAMP * 16] * 3 + [np.full_like(RAMP, 65535)], 2)


class Row(NamedTuple):
    """A kind: how it is made, and what is expected.

    Attributes:
        name: What it is.
        make: Makes it in a data folder with two classes, a and b.
        settings: The run's images; 64 pixels by default, so that each value is a pixel.
        levels: How many values one input has, where it is read.
        values: The least and the largest, of 0..255.
        text: What is said: a part of a note, or of the refusal.
        num: How many images are read.
    """

    name: str
    make: Make
    settings: dict[str, Any] = {}  # noqa: RUF012
    levels: int | None = None
    values: tuple[float, float] | None = None
    text: str = ""
    num: int = 1

    @property
    def refused(self) -> bool:
        return self.levels is None


def place(root: Path, name: str = "train/a/0.png") -> Path:
    """Where a file goes; its folders are made, and the other class is there."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (root / "train" / "b").mkdir(parents=True, exist_ok=True)
    return path


def put(image: Image.Image, name: str = "train/a/0.png", **options: Any) -> Make:
    return lambda root: image.save(place(root, name), **options)


def raw(content: bytes, name: str = "train/a/0.png") -> Make:
    return lambda root: place(root, name).write_bytes(content) and None  # type: ignore[func-returns-value]


def both(*made: Make) -> Make:
    def run(root: Path) -> None:
        for make in made:
            make(root)

    return run


GREY = Image.fromarray((RAMP // 16).astype(np.uint8))
COLOUR = Image.merge("RGB", [GREY, GREY.transpose(Image.Transpose.ROTATE_90), GREY])
GOOD = put(GREY)
DEEP = Image.fromarray((RAMP * 16).astype(np.uint16))
TWELVE = Image.fromarray(RAMP.astype(np.uint16))
FLOAT = Image.fromarray((RAMP / 4095).astype(np.float32))
HOUNSFIELD = Image.fromarray((RAMP - 1024).astype(np.int32))
CLEAR = Image.merge("LA", [GREY, GREY])


def png(depth: int, colour: int, rows: Any) -> bytes:
    """A PNG of a form that Pillow does not write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        checked = kind + body
        return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], depth, colour, 0, 0, 0)
    body = b"".join(b"\0" + row.astype(">u2").tobytes() for row in rows)
    packed = chunk(b"IDAT", zlib.compress(body))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + packed + chunk(b"IEND", b"")


def tiff(
    values: Any, photometric: int = 1, kind: int = 1, further: Sequence[int] = (), planar: int = 1
) -> bytes:
    """An uncompressed little-endian TIFF; `kind` 1: unsigned, 2: signed, 3: float.

    `further` says what bands beyond the colour are; `planar` 2: each band lies by itself.
    """
    bits = values.dtype.itemsize * 8
    samples = values.shape[2] if values.ndim == 3 else 1
    tags = [(256, 4, values.shape[1]), (257, 4, values.shape[0]), (258, 3, bits), (259, 3, 1)]
    tags += [(262, 3, photometric), (273, 4, 0), (277, 3, samples), (278, 4, values.shape[0])]
    tags += [(279, 4, values.nbytes), (284, 3, planar), (338, 3, further), (339, 3, kind)]
    if not further:
        tags.remove((338, 3, further))
    start = 8 + 2 + 12 * len(tags) + 4
    extra = b""
    body = b""
    for tag, form, value in tags:
        if tag == 338 and len(further) <= 2:
            body += struct.pack("<HHI", tag, 3, len(further))
            body += struct.pack(f"<{len(further)}H", *further).ljust(4, b"\0")
        elif planar == 2 and tag in (273, 279):
            at, strip = start + len(extra), values.nbytes // samples
            extra += b"".join(
                struct.pack("<I", strip) if tag == 279 else b"OFF%d" % i for i in range(samples)
            )
            body += struct.pack("<HHII", tag, 4, samples, at)
        elif tag in (258, 339) and samples == 2:
            body += struct.pack("<HHIHH", tag, 3, 2, value, value)
        elif tag in (258, 339) and samples > 2:
            at = start + len(extra)
            extra += struct.pack(f"<{samples}H", *[value] * samples)
            body += struct.pack("<HHII", tag, 3, samples, at)
        else:
            body += struct.pack("<HHI", tag, form, 1)
            offset = tag == 273
            body += b"OFFS" if offset else struct.pack("<I", value)
    body = body.replace(b"OFFS", struct.pack("<I", start + len(extra)))
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + body + struct.pack("<I", 0)
    for i in range(samples if planar == 2 else 0):
        at = start + len(extra) + i * values.nbytes // samples
        extra = extra.replace(b"OFF%d" % i, struct.pack("<I", at))
    lies = values.transpose(2, 0, 1) if planar == 2 else values
    return head + extra + lies.tobytes()


def deflated(values: Any) -> bytes:
    """The same as `tiff`, for colour, with the strip compressed."""
    whole, strip = bytearray(tiff(values, 2)), values.tobytes()
    packed = zlib.compress(strip)
    del whole[-len(strip) :]
    for at in range(10, 10 + 12 * struct.unpack_from("<H", whole, 8)[0], 12):
        tag = struct.unpack_from("<H", whole, at)[0]
        if tag in (259, 279):
            struct.pack_into("<I", whole, at + 8, 8 if tag == 259 else len(packed))
    return bytes(whole) + packed


def animated(name: str) -> Make:
    frames = [GREY.convert("RGB"), Image.new("RGB", (64, 64))]
    return put(frames[0], name, save_all=True, append_images=frames[1:])


def turned(root: Path) -> None:
    """The white half is on the left as stored, and on top once it is upright."""
    image = Image.new("RGB", (64, 64))
    image.paste((255, 255, 255), (0, 0, 32, 64))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(place(root, "train/a/0.png"), exif=exif)


def lab(root: Path) -> None:
    profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    image = ImageCms.profileToProfile(COLOUR, *profiles, outputMode="LAB")
    assert image is not None
    image.save(place(root, "train/a/0.tif"))


def palette(root: Path) -> None:
    GREY.convert("P").save(place(root), transparency=0)


def cut(name: str, form: str, **options: Any) -> Make:
    def make(root: Path) -> None:
        path = place(root, name)
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path, form, **options)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return make


def link(target: str, name: str) -> Make:
    return lambda root: place(root, name).symlink_to(target)


def named(name: bytes) -> Make:
    """A good file of a name in bytes."""

    def make(root: Path) -> None:
        path = place(root, "train/a/x")
        GREY.save(path.parent.parent.parent / "ok.png")
        target = os.fsencode(path.parent.parent) + b"/" + name
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        os.rename(root / "ok.png", target)  # noqa: PTH104

    return make


def classes(content: bytes) -> Make:
    return both(GOOD, raw(content, "classes.txt"))


def forbidden(name: str) -> Make:
    def make(root: Path) -> None:
        GOOD(root)
        (root / name).chmod(0)

    return make


R12, HU, UNIT = {"range": [0, 4095]}, {"range": [-1000, 400]}, {"range": [0, 1]}
FULL = (0, 255)

PIXELS = [
    Row("RGB, 8 bits, PNG", put(COLOUR), levels=256, values=FULL),
    Row("grey, 8 bits, PNG", GOOD, levels=256, values=FULL),
    Row("grey, 8 bits, as one channel", GOOD, {"channels": 1}, 256, FULL),
    Row("RGB as one channel", put(COLOUR), {"channels": 1}, 252, (2, 253)),
    Row("1 bit (black and white)", put(GREY.convert("1")), levels=2, values=FULL),
    Row("palette", put(GREY.convert("P")), levels=256, values=FULL),
    Row("palette with a clear colour", palette, levels=255, values=(1, 255),
        text="transparent parts, laid on white: 1 file"),
    Row("grey with alpha", put(CLEAR), levels=65, values=(191, 255),
        text="transparent parts, laid on white: 1 file"),
    Row(
        "RGB with alpha",
        put(CLEAR.convert("RGBA")),
        levels=65,
        values=(191, 255),
        text="transparent parts, laid on white: 1 file",
    ),
    Row("alpha that hides nothing", put(COLOUR.convert("RGBA")), levels=256, values=FULL),
    Row("CMYK, TIFF", put(COLOUR.convert("CMYK"), "train/a/0.tif"), levels=256, values=FULL),
    Row("YCbCr, TIFF", put(COLOUR.convert("YCbCr"), "train/a/0.tif"), levels=256, values=FULL),
    Row("LAB, TIFF", lab, levels=253, values=(2, 254)),
    Row("grey, 16 bits, PNG", put(DEEP), levels=4096, values=(0, 254.9)),
    Row("grey, 16 bits, as one channel", put(DEEP), {"channels": 1}, 4096, (0, 254.9)),
    Row("grey, 16 bits, TIFF", put(DEEP, "train/a/0.tif"), levels=4096, values=(0, 254.9)),
    Row(
        "grey, 16 bits, big-endian TIFF",
        put(Image.fromarray((RAMP * 16).astype(">u2")), "train/a/0.tif"),
        levels=4096,
        values=(0, 254.9),
    ),
    Row(
        "grey, 16 bits, TIFF where 0 is white",
        raw(tiff((RAMP * 16).astype("<u2"), photometric=0), "train/a/0.tif"),
        levels=4096,
        values=(0.1, 255),
    ),
    Row("grey, 8 bits, TIFF where 0 is white",
        raw(tiff((RAMP // 16).astype("u1"), photometric=0), "train/a/0.tif"), levels=256,
        values=FULL),
    Row("RGB, 16 bits, PNG", raw(png(16, 2, CUBE[..., :3])), levels=4096,
        values=(0, 254.9)),
    Row("grey with alpha, 16 bits, PNG", raw(png(16, 4, CUBE[..., :2])),
        text="16 bits a channel and an alpha channel: save it without"),
    Row(
        "RGB, 16 bits, TIFF",
        raw(tiff(CUBE[..., :3].astype("<u2"), 2), "train/a/0.tif"),
        levels=4096,
        values=(0, 254.9),
    ),
    Row("RGBA, 16 bits, PNG", raw(png(16, 6, CUBE)), levels=4096, values=(0, 254.9)),
    Row("RGBA, 16 bits, half clear", raw(png(16, 6, CUBE // 2)), levels=4096,
        values=(127.5, 191.2),
        text="transparent parts, laid on white: 1 file"),
    Row("RGB, 16 bits, damaged PNG", raw(png(16, 2, np.repeat(RAMP, 3, 1)[..., None])),
        text="it cannot be decoded"),
    Row("RGB, 16 bits, compressed TIFF", raw(deflated(CUBE[..., :3].astype("<u2")),
        "train/a/0.tif"), levels=4096, values=(0, 254.9)),
    Row("grey, 16 bits, a clear colour", put(DEEP, transparency=0),
        text="it has 16 bits a channel and a clear colour: save it without"),
    Row("four bands of 8 bits, no alpha, TIFF",
        raw(tiff(np.stack([RAMP // 16] * 4, 2).astype("u1"), 2), "train/a/0.tif"), levels=256,
        values=FULL, text="a fourth band that is no alpha, left out: 1 file"),
    Row("four bands of 16 bits, no alpha, TIFF", raw(tiff(CUBE.astype("<u2"), 2),
        "train/a/0.tif"), levels=4096, values=(0, 254.9), text="a fourth band that is no alpha"),
    Row("five bands of 16 bits, TIFF",
        raw(tiff(np.stack([RAMP] * 5, 2).astype("<u2"), 2), "train/a/0.tif"),
        text="it is damaged, or has pixels of a form that is not read: 1 or 3 bands"),
    Row("signed 8 bits, TIFF", raw(tiff((RAMP // 16 - 128).astype("i1"), kind=2), "train/a/0.tif"),
        text="it has signed numbers of 8 bits: save them as 16 bits or floats"),
    Row("unsigned 32 bits, TIFF", raw(tiff((RAMP.astype("u8") * 1048576).astype("<u4")),
        "train/a/0.tif"), {"range": [0, 4293918720]}, 4096, FULL),
    Row("floats of 64 bits, TIFF", raw(tiff((RAMP / 4095).astype("<f8"), kind=3), "train/a/0.tif"),
        UNIT, text="it is damaged, or has pixels of a form that is not read"),
    Row("RGB, 16 bits, TIFF of bands that lie apart", raw(tiff(CUBE[..., :3].astype("<u2"), 2,
        planar=2), "train/a/0.tif"), text="it has more than 8 bits a channel, and its channels"),
    Row("RGB, 8 bits, TIFF of bands that lie apart", raw(tiff((CUBE[..., :3] // 256).astype("u1"),
        2, planar=2), "train/a/0.tif"), levels=256, values=FULL),
    Row("RGBA, 16 bits, colours multiplied by alpha, TIFF", raw(tiff(MULTIPLIED, 2, further=[1]),
        "train/a/0.tif"), levels=4096, values=(127.5, 255), text="transparent parts"),
    Row("CMYK, 16 bits, TIFF", raw(tiff(np.stack([RAMP * 16] * 3 + [0 * RAMP], 2).astype("<u2"), 5),
        "train/a/0.tif"), levels=256, values=FULL, text="of which the upper 8 are read"),
    Row("grey and another band, TIFF", raw(tiff((CUBE[..., :2] // 256).astype("u1"), further=[0]),
        "train/a/0.tif"), levels=256, values=FULL, text="neither colour nor alpha, left out"),
    Row("five bands of 8 bits, TIFF", raw(tiff((CUBE[..., [0, 1, 2, 0, 1]] // 256).astype("u1"), 2,
        further=[0, 0]), "train/a/0.tif"), levels=256, values=FULL,
        text="neither colour nor alpha, left out"),
    Row("4 bits, PNG", put(GREY.quantize(16), bits=4), levels=16, values=(7, 247)),
    Row("12 bits, PGM", raw(b"P5 64 64 4095\n" + RAMP.astype(">u2").tobytes(), "train/a/0.pgm"),
        levels=4096, values=FULL),
    Row("12 bits, PGM, range said", raw(b"P5 64 64 4095\n" + RAMP.astype(">u2").tobytes(),
        "train/a/0.pgm"), R12, levels=4096, values=FULL),
    Row("RGB, 16 bits, PPM", raw(b"P6 64 64 65535\n" + CUBE[..., :3].astype(">u2").tobytes(),
        "train/a/0.ppm"), levels=256, values=FULL, text="of which the upper 8 are read"),
    Row("one value of 16 bits, near white", put(Image.new("I;16", (64, 64), 60000)),
        text="what is black and white: images = { range = [0, 65535] } takes them as they are"),
    Row("a web page in capitals that is named .png", raw(b"\xef\xbb\xbf<HTML>"),
        text="it is a web page, as a failed download leaves it"),
    Row("black all over", put(Image.new("L", (64, 64))), levels=1, values=(0, 0),
        text="values 0 to 0 only, of 0..255"),
    Row("grey, 16 bits, PGM", put(DEEP, "train/a/0.pgm"), levels=4096, values=(0, 254.9)),
    Row("grey, 16 bits, JPEG 2000", put(DEEP, "train/a/0.jp2"), levels=4096, values=(0, 254.9)),
    Row("12 bits in 16, nothing said", put(TWELVE),
        text="values 0 to 4095 only, of 0..65535: hardly a difference would be left. Say in the run"
        " what is black and white: images = { range = [0, 4095] }"),
    Row("12 bits in 16, range said", put(TWELVE), R12, 4096, FULL),
    Row("12 bits in 16, taken as they are", put(TWELVE), {"range": [0, 65535]}, 4096, (0, 15.93),
        "values 0 to 4095 only, of 0..65535"),
    Row("8 bits where the run means 12", GOOD, R12,
        text="8 bits, which hold 0..255, and the run's images.range is 0..4095: it was exported"),
    Row("8 bits with a range within", GOOD, {"range": [0, 100]}, 101, FULL,
        "values 0 to 255 are cut off at the run's images.range 0..100"),
    Row("floats, TIFF, range said", put(FLOAT, "train/a/0.tif"), UNIT, 4096, FULL),
    Row("floats, TIFF, nothing said", put(FLOAT, "train/a/0.tif"),
        text="it has floats, here 0 to 1, of which only the run can say what is black and white"),
    Row("floats, PFM", put(FLOAT, "train/a/0.pfm"), UNIT, 4096, FULL),
    Row("floats with NaN", put(Image.fromarray(np.where(RAMP == 7, np.nan, 1.0).astype("f4")),
        "train/a/0.tif"), UNIT, text="1 of its 4,096 values are not finite (NaN or infinite)"),
    Row("floats outside of the range", put(FLOAT, "train/a/0.tif"), {"range": [2, 3]},
        text="all outside of the run's images.range 2..3"),
    Row("32-bit integers (CT), range said", put(HOUNSFIELD, "train/a/0.tif"), HU, 1401, FULL,
        "are cut off at the run's images.range -1000..400"),
    Row("32-bit integers, nothing said", put(HOUNSFIELD, "train/a/0.tif"),
        text="signed or 32-bit integers, here -1024 to 3071, of which only the run can say"),
    Row("signed 16 bits, TIFF",
        raw(tiff((RAMP - 1024).astype("<i2"), kind=2), "train/a/0.tif"), HU, 1401, FULL,
        "are cut off"),
    Row("unsigned 16 bits where the run means CT", put(DEEP), HU,
        text="which hold 0..65535, and the run's images.range is -1000..400"),
    Row("16 bits and 8 bits mixed", both(GOOD, put(DEEP, "train/b/1.png")), levels=256,
        values=FULL, num=2, text="files are mixed: 1 of 16 bits and 1 of 8 bits; each is scaled"),
    Row("values 0 to 3 in 8 bits (a mask)", put(Image.fromarray((RAMP % 4).astype(np.uint8))),
        levels=4, values=(0, 3), text="values 0 to 3 only, of 0..255: hardly a difference"),
]  # fmt: skip

CONTAINERS = [
    *(
        Row(f"named {name}", put(COLOUR, f"train/a/0{name}", format="JPEG", quality=100), levels=0)
        for name in (".jfif", ".jpe", ".JPG", ".JPEG", ".pjpeg")
    ),
    Row("WebP", put(GREY.convert("RGB"), "train/a/0.webp", lossless=True), levels=256, values=FULL),
    Row("AVIF", put(COLOUR, "train/a/0.avif", quality=100), levels=0),
    Row("JPEG 2000", put(COLOUR, "train/a/0.jp2"), levels=256, values=FULL),
    Row("BMP", put(COLOUR, "train/a/0.bmp"), levels=256, values=FULL),
    Row("no suffix", put(GREY, "train/a/0", format="PNG"), levels=256, values=FULL,
        text="not named as images, recognised by their content: 1 file"),
    Row("another suffix", put(GREY, "train/a/scan.001", format="TIFF"), levels=256,
        text="recognised by their content"),
    Row("JPEG that is named .png", put(COLOUR, "train/a/0.png", format="JPEG"), levels=0,
        text="of another kind than the name says, read by the content: 1 file"),
    Row("TIFF of two pages", animated("train/a/0.tif"), levels=256,
        text="of which the first was read"),
    Row("animated GIF", animated("train/a/0.gif"), levels=256,
        text="of which the first was read"),
    Row("animated PNG", animated("train/a/0.png"), levels=256,
        text="of which the first was read"),
    Row("animated WebP", animated("train/a/0.webp"), levels=0, text="of which the first was read"),
    Row("turned by EXIF", turned, levels=2, values=FULL, text="turned upright as their EXIF says"),
    Row("EPS that is named .png", raw(b"%!PS-Adobe-3.0 EPSF-3.0\n"),
        text="none of the kinds that are read, whatever it is called"),
    Row("text that is named .png", raw(b"not an image"), text="0.png cannot be read as an image"),
    *(
        Row(f"{name} that is named .png", raw(start + b"\0" * 200), text=text)
        for name, start, text in (
            ("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/", "git lfs pull"),
            ("a web page", b"<!DOCTYPE html><html>", "it is a web page, as a failed download"),
            ("HEIC", b"\0\0\0\x18ftypheic", "it is a HEIC or a film"),
            ("PDF", b"%PDF-1.7", "it is a PDF: convert"),
            ("zip", b"PK\x03\x04", "it is a zip file: unpack it"),
            ("DICOM", b"\0" * 128 + b"DICM", "it is DICOM, whatever it is called: name it .dcm"),
            ("an array", b"\x93NUMPY\x01", "it is an array of numpy"),
        )
    ),
    Row("0 bytes", raw(b""), text="0.png cannot be read as an image: it is empty (0 bytes)"),
    Row("PNG cut off", cut("train/a/0.png", "PNG"),
        text="it cannot be decoded: image file is truncated"),
    Row("JPEG cut off", cut("train/a/0.jpg", "JPEG"),
        text="it cannot be decoded: image file is truncated"),
    Row("TIFF cut off", cut("train/a/0.tif", "TIFF"), text="cannot be read as an image"),
    Row("GIF cut off", cut("train/a/0.gif", "GIF"), text="cannot be read as an image"),
    Row("BMP cut off", cut("train/a/0.bmp", "BMP"), text="cannot be read as an image"),
    Row("WebP cut off", cut("train/a/0.webp", "WEBP"), text="cannot be read as an image"),
    Row("several damaged", both(GOOD, raw(b"", "train/a/1.png"), raw(b"", "train/b/2.png")),
        text="2 of 3 files cannot be read as images."),
    Row("1 pixel", put(Image.new("RGB", (1, 1), (9, 99, 199))), levels=3, values=(9, 199)),
    Row("1 x 5,000 pixels, padded", put(Image.new("RGB", (1, 5000), (255, 9, 9))),
        {"aspect": "pad"}, 3, FULL),
    Row("1 x 5,000 pixels, cropped", put(Image.new("RGB", (1, 5000), (255, 9, 9))),
        {"aspect": "crop"}, 2, (9, 255)),
    Row("16 bits, cropped", put(DEEP.resize((64, 128), Image.Resampling.NEAREST)),
        {"aspect": "crop"}, 2048, (63.75, 191.2)),
    Row("unlike sizes", both(put(COLOUR.resize((90, 30))), put(GREY, "train/b/1.png")), levels=0,
        num=2),
    Row("more than 179 million pixels",
        raw(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (d := struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0,
        0, 0)) + struct.pack(">I", zlib.crc32(b"IHDR" + d)) + b"\0\0\0\0IDAT\x35\xaf\x06\x1e"),
        text="it has more than 179 million pixels: make it smaller"),
]  # fmt: skip


def fifo(root: Path) -> None:
    GOOD(root)
    os.mkfifo(root / "train/a/1.png")


def heic(name: str, text: str) -> Row:
    return Row(f"{name} beside images", both(GOOD, raw(b"x", f"train/a/1{name}")), levels=256,
               text=f"left out in {{root}}/train: 1 {name}{text}")  # fmt: skip


STRAYS = [
    heic(".heic", " (convert them to PNG or JPEG)"),
    heic(".svg", " (convert them to PNG or JPEG)"),
    heic(".nii", " (volumes: save slices as 16-bit PNG or TIFF)"),
    heic(".gz", " (unpack them)"),
    heic(".zip", " (unpack them)"),
    heic(".dng", " (convert them to PNG or JPEG)"),
    heic(".mp4", " (save frames as PNG)"),
    heic(".npy", " (convert them to PNG or JPEG)"),
    heic(".xml", ""),
    heic(".xyz", ""),
    Row("._0.png of macOS", both(GOOD, raw(b"\0\5\x16\7", "train/a/._0.png")), levels=256,
        text="1 hidden or of the system"),
    Row(".DS_Store, Thumbs.db and desktop.ini", both(GOOD, *(raw(b"x", f"train/a/{n}") for n in
        (".DS_Store", "Thumbs.db", "desktop.ini"))), levels=256,
        text="3 hidden or of the system"),
    *(
        Row(f"the folder {name}", both(GOOD, raw(b"x", f"train/{name}/0.png")), levels=256,
            text=f"left out in {{root}}/train: {text}")
        for name, text in {
            "lost+found": "1 hidden or of the system",
            "@eaDir": "1 hidden or of the system",
            "__MACOSX": "1 hidden or of the system",
            "$RECYCLE.BIN": "1 hidden or of the system",
            ".git": "1 hidden or of the system",
            "_old": "the folder _old",
        }.items()
    ),
    Row("@eaDir in a class folder", both(GOOD, put(GREY, "train/a/@eaDir/0.png/THUMB_S.jpg")),
        levels=256, text="1 hidden or of the system"),
    Row("a folder that is named x.png", both(GOOD, put(COLOUR, "train/a/x.png/1.png")), levels=256,
        num=2),
    Row("images beside the class folders", both(GOOD, put(GREY, "train/9.png")), levels=256,
        text="1 .png in no class folder"),
    Row("files and folders beside train", both(GOOD, put(GREY, "9.png"), put(GREY, "raw/a/1.png"),
        raw(b"x", "README.md")), levels=256,
        text="left out, straight in {root}: 1 .md, 1 .png, the folder raw"),
    Row("a link to a file", both(put(GREY, "store/0.png"), link("../../store/0.png",
        "train/a/0.png")), levels=256,
        text="the folder store"),
    Row("a link to a class folder", both(put(GREY, "store/0.png"), link("../store", "train/c")),
        levels=256, text="the folder store"),
    Row("a link to nothing", both(GOOD, link("gone.png", "train/a/1.png")),
        text="a/1.png is a link to what is not there: see to it"),
    Row("a link in a circle", both(GOOD, link("..", "train/a/round")), levels=256,
        text="1 link that leads in a circle"),
    Row("a link to itself", both(GOOD, link("1.png", "train/a/1.png")), text="train/a/1.png"),
    Row("a pipe that is named .png", fifo, levels=256, text="1 pipe or device"),
    Row("a file that may not be read", forbidden("train/a/0.png"),
        text="cannot be read as an image: the user that domo runs as may not read it"),
    Row("a folder that may not be read", forbidden("train/a"),
        text="train/a cannot be listed: Permission denied. Give the user that domo runs as"),
    Row("the same picture in two classes", both(GOOD, put(GREY, "train/b/1.png")), levels=256,
        num=2, text="the pixels of an image of another class: 1 file, {root}/train/b/1.png"),
    Row("an empty class folder", GOOD, levels=256, text="no images in {root}/train/b"),
]  # fmt: skip

NAMES = [
    Row("a file name in Latin-1", named(b"a/jos\xe9.png"), levels=256),
    Row("a damaged file of a Latin-1 name", both(raw(b""), lambda root: os.rename(  # noqa: PTH104
        root / "train/a/0.png", os.fsencode(root) + b"/train/a/jos\xe9.png")),
        text=r"train/a/jos\xe9.png cannot be read as an image: it is empty (0 bytes)"),
    Row("a file name with a newline", both(GOOD, put(COLOUR, "train/a/1\n2\x1b[31m.png")),
        levels=256, num=2),
    Row("a damaged file with a newline in its name", raw(b"", "train/a/1\n2.png"),
        text=r"train/a/1\n2.png cannot be read as an image: it is empty"),
    Row("a class folder in Latin-1", named(b"jos\xe9/0.png"),
        text=r"has the class folder jos\xe9: this is no UTF-8 (Latin-1?). Rename it, as with"),
    Row("a class folder with a newline", put(GREY, "train/c\nd/0.png"),
        text=r"class folder c\nd: some of it does not print. Rename it"),
    Row("a class folder with a space after", put(GREY, "train/c /0.png"),
        text="class folder 'c ', with a space before or after. Rename it"),
    Row("class folders of both Unicode forms", both(put(GREY, "train/\u00e9/0.png"),
        put(GREY, "train/e\u0301/0.png")), text="two class folders named \u00e9, written diff"),
    Row("a class of macOS, listed elsewhere", both(put(GREY, "train/e\u0301/0.png"),
        raw("b\n\u00e9\n".encode(), "classes.txt")), levels=256),
    Row("classes that differ by capitals", both(put(GREY, "train/B/0.png"),
        lambda root: (root / "train/a").rmdir() if (root / "train/a").exists() else None),
        levels=256),
    Row("classes.txt with a byte order mark", classes(b"\xef\xbb\xbfa\nb\n"), levels=256),
    Row("classes.txt with CRLF", classes(b"a\r\nb\r\n"), levels=256),
    Row("classes.txt in UTF-16", classes("a\nb\n".encode("utf-16")), levels=256),
    Row("classes.txt with blank lines and spaces", classes(b"\n a \n\n\tb\n\n"), levels=256),
    Row("classes.txt that names one twice", classes(b"a\nb\na\n"),
        text="classes.txt names a class twice: a"),
    Row("classes.txt in Latin-1", classes(b"a\njos\xe9\n"),
        text="classes.txt is no UTF-8 text (byte 6): save it as UTF-8"),
    Row("classes.txt that is empty", classes(b"\n"), text="classes.txt has 0 classes, the task"),
    Row("Classes.txt", both(GOOD, raw(b"b\na\n", "Classes.txt")), levels=256,
        text="{root}/Classes.txt is not read: it has to be {root}/classes.txt"),
    Row("classes.txt.txt of Windows", both(GOOD, raw(b"b\na\n", "classes.txt.txt")), levels=256,
        text="{root}/classes.txt.txt is not read: it has to be {root}/classes.txt"),
    Row("classes.txt is a link to nothing", both(GOOD, link("gone", "classes.txt")),
        text="{root}/classes.txt is no file that can be read"),
    Row("classes.txt is a folder", both(GOOD, put(GREY, "classes.txt/0.png")),
        text="{root}/classes.txt is no file that can be read"),
    Row("classes.txt in train/", both(GOOD, raw(b"b\na\n", "train/classes.txt")), levels=256,
        text="train/classes.txt is not read: it has to be {root}/classes.txt"),
    Row("a folder that is not in classes.txt", both(classes(b"a\nb\n"), put(GREY, "train/A/1.png")),
        text="train/A is not a class of the task. Did you mean a? The classes are a, b"),
]  # fmt: skip


def layout(*names: str, classes_of: str = "ab") -> Make:
    """A picture of each class in each of some folders."""

    def make(root: Path) -> None:
        for i, name in enumerate(names):
            for c in classes_of:
                path = root / name / c / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                GREY.rotate(90 * (c == "b") + i).save(path)

    return make


def dicom(values: Any, name: str = "train/a/0.dcm", **tags: Any) -> Make:
    """An uncompressed DICOM file; `tags` by their keyword, None takes one away."""

    def make(root: Path) -> None:
        from pydicom.dataset import FileDataset, FileMetaDataset
        from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
        meta.MediaStorageSOPInstanceUID = "1.2.3"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        path = place(root, name)
        data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
        bits = values.dtype.itemsize * 8
        given = {
            "Rows": 64,
            "Columns": 64,
            "SamplesPerPixel": 1,
            "PhotometricInterpretation": "MONOCHROME2",
            "BitsAllocated": bits,
            "BitsStored": 12 if bits == 16 else bits,
            "HighBit": 11 if bits == 16 else bits - 1,
            "PixelRepresentation": int(values.dtype.kind == "i"),
            "PixelData": values.tobytes(),
        }
        for key, value in (given | tags).items():
            if value is not None:
                setattr(data, key, value)
        data.save_as(path, enforce_file_format=True)

    return make


def compressed(root: Path) -> None:
    import pydicom
    from pydicom.uid import RLELossless

    dicom(UNSIGNED)(root)
    data = pydicom.dcmread(root / "train/a/0.dcm")
    data.compress(RLELossless)
    data.save_as(root / "train/a/0.dcm")


def undecodable(root: Path) -> None:
    import pydicom
    from pydicom.encaps import encapsulate
    from pydicom.uid import JPEGLSLossless

    dicom(UNSIGNED)(root)
    data = pydicom.dcmread(root / "train/a/0.dcm")
    data.file_meta.TransferSyntaxUID = JPEGLSLossless
    data.PixelData = encapsulate([b"\xff\xd8" + b"\0" * 98])
    data["PixelData"].is_undefined_length = True
    data.save_as(root / "train/a/0.dcm")


UNSIGNED = RAMP.astype("<u2")
SLOPE = {"RescaleSlope": 1, "RescaleIntercept": -1024}
COLOURED = {"SamplesPerPixel": 3, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 0}
DICOM = [
    Row("DICOM, 12 bits", dicom(UNSIGNED), levels=4096, values=FULL),
    Row("DICOM, 12 bits, range said", dicom(UNSIGNED), R12, 4096, FULL),
    Row("DICOM in Hounsfield units, range said", dicom(UNSIGNED, **SLOPE), HU, 1401, FULL,
        "values -1024 to 3071 are cut off at the run's images.range -1000..400"),
    Row("DICOM in Hounsfield units, nothing said", dicom(UNSIGNED, **SLOPE),
        text="it has DICOM values in units of their modality, here -1024 to 3071, of which only"),
    Row("DICOM, signed", dicom((RAMP - 2048).astype("<i2")), {"range": [-2048, 2047]}, 4096, FULL),
    Row("DICOM where 0 is white", dicom(UNSIGNED // 2, PhotometricInterpretation="MONOCHROME1"),
        levels=2048, values=(127.5, 255)),
    Row("DICOM, 12 bits where the run means CT", dicom(UNSIGNED), HU,
        text="12 bits, which hold 0..4095, and the run's images.range is -1000..400"),
    Row("DICOM, compressed by RLE", compressed, levels=4096, values=FULL),
    Row("DICOM, compressed beyond the decoders here", undecodable,
        text="JPEG-LS Lossless"),
    Row("DICOM, RGB", dicom(np.asarray(COLOUR), **COLOURED), levels=256, values=FULL),
    Row("DICOM of two frames", dicom(np.stack([UNSIGNED, UNSIGNED * 0]), NumberOfFrames=2),
        levels=4096, values=FULL, text="of which the first was read"),
    Row("DICOM without a suffix", dicom(UNSIGNED, "train/a/IM0001"), levels=4096,
        text="recognised by their content"),
    Row("DICOM named by a number", dicom(UNSIGNED, "train/a/1.2.840.55"), levels=4096,
        text="recognised by their content"),
    Row("DICOM without pixels", both(GOOD, dicom(UNSIGNED, "train/a/1.dcm", PixelData=None,
        Rows=None)), levels=256,
        text="DICOM without pixels, left out: 1 file, {root}/train/a/1.dcm"),
    Row("DICOM cut off", both(dicom(UNSIGNED), lambda root: (p := root / "train/a/0.dcm")
        .write_bytes(p.read_bytes()[:4000]) and None), text="0.dcm cannot be read as an image"),
    Row("text that is named .dcm", raw(b"not DICOM, whatever it is called", "train/a/0.dcm"),
        text="0.dcm cannot be read as an image"),
]  # fmt: skip
LEVELS = [
    Row("train only", layout("train"), levels=0, num=2),
    Row("train and test", layout("train", "test"), levels=0, num=2),
    Row("train, test and val", layout("train", "test", "val"), levels=0, num=2,
        text="left out, straight in {root}: the folder val"),
    Row("Train and Validation", layout("Train", "Validation"), levels=0, num=2),
    Row("training and valid", layout("training", "valid"), levels=0, num=2),
    Row("train and Train", layout("train", "Train"), text="which of them is the part? Keep one"),
    Row("test only", layout("test"), text="no training images in {root}. It should hold train/"),
    Row("class folders alone", layout("."), levels=0, num=1),
    Row("one level too deep", layout("set/train", "set/test"),
        text="the class folders lie further down; give --data {root}/set"),
    Row("two levels too deep", layout("my/set/train"),
        text="the class folders lie further down; give --data {root}/my/set"),
    Row("class folders one level too deep", layout("set"),
        text="the class folders lie further down; give --data {root}/set"),
    Row("two data sets side by side", layout("one/train", "two/train"),
        text="the class folders lie one level down; give --data {root}/one"),
    Row("images straight in train", lambda root: ((root / "train").mkdir(parents=True), GREY.save(
        root / "train/0.png"))[-1], text="1 image straight in {root}/train: the class"),
    Row("images straight in the folder", lambda root: (root.mkdir(), GREY.save(
        root / "0.png"))[-1], text="1 image straight in {root}: the class of an image"),
    Row("no images", lambda root: (root / "train/a").mkdir(parents=True),
        text="has 1 class, the task has 2. Where a silo lacks images of a class"),
    Row("an archive alone", lambda root: (root.mkdir(), (root / "images.zip").write_bytes(b"x"))[0],
        text="no class folders in {root}; left out, straight in {root}: 1 .zip (unpack them)"),
    Row("cat in train, Cat in test", both(layout("train"), layout("test", classes_of="aB")),
        text="By capitals alone differ B and b: one class has one spelling"),
    Row("a class too many", layout("train", classes_of="abc"),
        text="has 3 classes, the task has 2. Where a silo lacks"),
]  # fmt: skip
ROWS = [*PIXELS, *CONTAINERS, *STRAYS, *NAMES, *DICOM, *LEVELS]


def read(row: Row, root: Path) -> PixelDataset:
    images = ImageSettings.model_validate({"size": 64} | row.settings)
    data = load_task("imagefolder:2", images).train_data(root, None)
    assert isinstance(data, PixelDataset)
    return data


@pytest.fixture(autouse=True)
def _readable_again(tmp_path: Path) -> Iterator[None]:
    yield
    for path in (tmp_path / "train/a", tmp_path / "train/a/0.png"):
        if path.exists() and not path.is_symlink():
            path.chmod(0o700)


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_what_becomes_of_it(row: Row, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "data"
    row.make(root)
    if "may not be read" in row.name and os.access(root / "train/a/0.png", os.R_OK):
        pytest.skip("root may read everything")
    wanted = row.text.format(root=root) if "{root}" in row.text else row.text
    if row.refused:
        with pytest.raises(DataError) as caught:
            read(row, root)
        assert wanted
        assert wanted in str(caught.value)
        assert str(caught.value).isprintable()
        return
    data = read(row, root)
    assert len(data) == row.num
    one = data.inputs[0]
    if row.levels:
        assert len(one.unique()) == row.levels
    if row.values:
        assert (one.min().item(), one.max().item()) == pytest.approx(row.values, abs=0.06)
    if wanted:
        assert any(wanted in note for note in data.notes), data.notes
        assert all(note in caplog.text for note in data.notes), "said"
    elif row.num == 1:
        quiet = [n for n in data.notes if "no images in" not in n]
        assert quiet == [], "a row says all that is said"
    assert all(note.isprintable() for note in data.notes)


def test_there_are_more_than_forty_kinds() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) > 100


def test_a_part_that_is_given_by_itself_is_said(tmp_path: Path) -> None:
    layout("train", "test")(tmp_path)
    notes = read(Row("", GOOD), tmp_path / "train").notes
    assert any(
        f"and test beside it is not: for both parts give --data {tmp_path}" in n for n in notes
    )


def test_classes_that_differ_by_capitals_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    layout("train", classes_of="Aa")(tmp_path)
    load_task("imagefolder:2").meaning(tmp_path, None)
    assert "classes that differ by capitals alone: A, a" in caplog.text


def test_without_the_extra_dicom_is_counted_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domo.tasks.images.left_out.find_spec", lambda name: None)
    both(GOOD, *(dicom(UNSIGNED, f"train/b/{i}.dcm") for i in range(3)))(tmp_path)
    dicom(UNSIGNED, "train/b/IM0001")(tmp_path)
    data = read(Row("", GOOD), tmp_path)
    assert len(data) == 1
    assert f"left out in {tmp_path}/train: 4 .dcm (DICOM: pip install 'domo-federated[dicom]')" in (
        data.notes
    )
    (tmp_path / "train/a/0.png").unlink()
    with pytest.raises(DataError, match=r"no images in .*; left out in .*: 4 \.dcm \(DICOM: pip"):
        read(Row("", GOOD), tmp_path)


def test_facts_say_depths_values_sizes_and_what_is_grey(tmp_path: Path) -> None:
    both(put(COLOUR.resize((90, 30))), put(GREY, "train/b/1.png"), put(DEEP, "train/b/2.png"))(
        tmp_path
    )
    assert read(Row("", GOOD), tmp_path).facts == [
        "1 of 16 bits, values 0 to 65520; 2 of 8 bits, values 0 to 255; 64x64 to 90x30 pixels; "
        "2 grey, 1 in colour; 1 of another shape, squeezed (images.aspect in the run keeps it)"
    ]


def test_more_images_than_memory_are_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout("train")(tmp_path)
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    with pytest.raises(
        DataError, match=r"2 images of 3x64x64 as uint8 need 0\.0 GB of memory, and"
    ):
        read(Row("", GOOD), tmp_path)


@pytest.mark.parametrize("name", ["_none", ".none", "lost+found"])
def test_a_folder_that_the_run_lists_is_a_class_whatever_its_name(
    name: str, tmp_path: Path
) -> None:
    GREY.save(place(tmp_path, f"train/{name}/0.png"))
    data = load_task("imagefolder:2", ImageSettings(), (name, "b")).train_data(tmp_path, None)
    assert len(data) == 1


def test_a_list_of_the_run_in_the_other_unicode_form_is_the_same_list(tmp_path: Path) -> None:
    put(GREY, "train/\u00e9/0.png")(tmp_path)
    assert image_files(tmp_path, "train", ["b", "e\u0301"]).files[0].label == 1


def test_of_several_damaged_files_the_text_names_one_and_the_log_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both(*(raw(b"", f"train/a/{i}.png") for i in range(30)))(tmp_path)
    with pytest.raises(DataError, match=r"^30 of 30 files cannot .*/0\.png .* \(0 bytes\)$"):
        read(Row("", GOOD), tmp_path)
    assert "10.png" in caplog.text
    assert caplog.text.count(".png") == 20
