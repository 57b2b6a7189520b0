"""What a file or a folder is, by its name, and where that does not say by its first bytes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

IMAGE_SUFFIXES = {
    *(".apng", ".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
    *(".pbm", ".pfm", ".pgm", ".pjp", ".pjpeg", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
}
DICOM_SUFFIXES = {".dcm", ".dicom", ".ima"}
CONVERT, VOLUMES = "convert them to PNG or JPEG", "volumes: save slices as 16-bit PNG or TIFF"
CURES = {
    **dict.fromkeys((".heic", ".heif", ".hif", ".jxl", ".psd", ".ico", ".tga", ".pcx"), CONVERT),
    **dict.fromkeys((".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".raf", ".rw2"), CONVERT),
    **dict.fromkeys((".exr", ".hdr", ".fits", ".fit"), "convert them to float TIFF"),
    **dict.fromkeys((".svg", ".svgz", ".eps", ".ps", ".pdf", ".wmf", ".emf"), CONVERT),
    **dict.fromkeys((".nii", ".mha", ".mhd", ".nrrd", ".mgz", ".img"), VOLUMES),
    **dict.fromkeys((".svs", ".ndpi", ".mrxs", ".scn", ".czi", ".lif"), "cut tiles out of them"),
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg"), "save frames as PNG"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar"), "unpack them"),
    **dict.fromkeys((".npy", ".npz", ".mat", ".h5", ".hdf5", ".pt", ".parquet"), CONVERT),
}
"""What to do about a kind of file that holds images and is not read."""
TEXTS = {
    *(".txt", ".md", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".toml", ".ini"),
    *(".log", ".html", ".htm", ".xlsx", ".xls", ".docx", ".py", ".ipynb", ".db", ".sqlite", ".pkl"),
}
"""Kinds of file that hold no images."""
SYSTEM_FILES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"}
SYSTEM_FOLDERS = {
    *("@eadir", "@recycle", "@tmp", "#recycle", "#snapshot", "$recycle.bin", "lost+found"),
    *("system volume information", "__macosx", "__pycache__"),
}
MOST_NAMED = 3
HEAD = 132
"""Bytes that tell what a file is."""
STARTS = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"),
    *(b"II+\0", b"MM\0+"),  # of more than 4 GB
    *(b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
)

FOREIGN = {
    b"version https://git-lfs": "it is a pointer of Git LFS: fetch the files, with git lfs pull",
    b"<!DOCTYPE": "it is a web page, as a failed download leaves it: fetch it anew",
    b"<html": "it is a web page, as a failed download leaves it: fetch it anew",
    b"<svg": f"it is a drawing (SVG): {CONVERT}",
    b"<?xml": "it is XML, whatever it is called",
    b"%PDF": f"it is a PDF: {CONVERT}",
    b"PK\x03\x04": "it is a zip file: unpack it",
    b"\x1f\x8b": "it is a gzip file: unpack it",
    b"8BPS": f"it is a PSD: {CONVERT}",
    b"\x93NUMPY": "it is an array of numpy: save it as PNG or float TIFF",
    b"\x89HDF": "it is HDF5: save its images as PNG or float TIFF",
}
"""First bytes of what is often named as an image, and what to do."""

Kind = Literal["image", "dicom", "system", "other"]


def kind_of(name: str, path: str) -> tuple[Kind, bool]:
    """What a file is, and whether its name alone said so.

    Raises:
        OSError: Its name does not say, and it cannot be read.
    """
    if is_system(name):
        return "system", True
    suffix = suffix_of(name)
    if suffix in IMAGE_SUFFIXES:
        return "image", True
    if suffix in DICOM_SUFFIXES:
        return "dicom", True
    if suffix in CURES or suffix in TEXTS:
        return "other", True
    with Path(path).open("rb") as file:
        return by_content(file.read(HEAD)), False


def by_content(head: bytes) -> Kind:
    """What a file is by its first bytes."""
    if head[128:132] == b"DICM":
        return "dicom"
    riff = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    bitmap = head[:2] == b"BM" and head[6:10] == b"\0\0\0\0"
    avif = head[4:12] in (b"ftypavif", b"ftypavis")
    return "image" if head.startswith(STARTS) or riff or bitmap or avif else "other"


def what_it_is(head: bytes) -> str:
    """Of a file that no decoder takes, what its first bytes say."""
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    told = next((text for start, text in FOREIGN.items() if begins.startswith(start.lower())), None)
    if head[4:8] == b"ftyp":
        told = "it is a HEIC or a film, whatever it is called: save it as PNG or JPEG"
    if told is None and by_content(head) == "dicom":
        told = "it is DICOM, whatever it is called: name it .dcm"
    if told is None and by_content(head) == "image":
        told = (
            "it is damaged, or has pixels of a form that is not read: 1 or 3 bands of 8 or 16 bits "
            "are, and one of 32-bit integers or floats"
        )
    return told or "it is none of the kinds that are read, whatever it is called"


def suffix_of(name: str) -> str:
    """The last suffix, in small letters."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def is_system(name: str) -> bool:
    """Whether a file is hidden or the system's, as the ._0.png that macOS leaves beside 0.png."""
    return name[0] == "." or name.casefold() in SYSTEM_FILES


def is_aside(name: str) -> bool:
    """Whether a folder is hidden, the system's, or put aside by an underscore."""
    return name[0] in "._" or name.casefold() in SYSTEM_FOLDERS


def counted(n: int, what: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def enumerated(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """The first few, in words."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
