"""DICOM files, with the extra `dicom`: values in the units of the modality, such as Hounsfield's.

The window that a file suggests is not used: it differs from file to file. `images.range` of the run
is the window of all silos.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domo.tasks.images.kinds import DICOM_SUFFIXES, HEAD, IMAGE_SUFFIXES, by_content, suffix_of


class DicomImage(NamedTuple):
    """The first frame of a file.

    Attributes:
        values: Shape (H, W) or (H, W, 3).
        depth: What they are, for people.
        bounds: What they could be; None where only the run can say.
        inverted: The least of them is white.
        num_frames: How many the file has.
    """

    values: NDArray[Any]
    depth: str
    bounds: tuple[float, float] | None
    inverted: bool
    num_frames: int


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM; those named as other images are not looked into."""
    suffix = suffix_of(path.name)
    if suffix in IMAGE_SUFFIXES:
        return False
    if suffix in DICOM_SUFFIXES:
        return True
    with path.open("rb") as file:
        return by_content(file.read(HEAD)) == "dicom"


def read(path: Path) -> DicomImage | None:
    """Read a file; None: it has no pixels, as a DICOMDIR or a report.

    Raises:
        Exception: Whatever pydicom raises on a file that is damaged or compressed as it cannot
            undo.
    """
    import pydicom
    from pydicom.pixels.processing import apply_color_lut, apply_modality_lut
    from pydicom.pixels.utils import pixel_array

    data = pydicom.dcmread(path, force=suffix_of(path.name) in DICOM_SUFFIXES)
    if not any(name in data for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        if "Rows" in data:
            raise ValueError("its pixels are missing")
        if "SOPClassUID" not in data and "MediaStorageSOPClassUID" not in data.file_meta:
            raise ValueError("it is no DICOM file")
        return None
    frames = int(data.get("NumberOfFrames") or 1)
    values = pixel_array(data, index=0)
    kind = str(data.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        values = apply_color_lut(values, data)
        top = float(np.iinfo(values.dtype).max)
        return DicomImage(values, f"{values.dtype.itemsize * 8} bits", (0.0, top), False, frames)
    stored = int(data.get("BitsStored") or 32)
    if values.ndim == 3:
        return DicomImage(values, f"{stored} bits", (0.0, 2.0**stored - 1), False, frames)
    own = apply_modality_lut(values, data)
    signed = bool(data.get("PixelRepresentation"))
    as_stored = own.dtype == values.dtype or np.array_equal(own, values)
    inverted = kind == "MONOCHROME1"
    if as_stored and not signed and values.dtype.kind == "u":
        return DicomImage(own, f"{stored} bits", (0.0, 2.0**stored - 1), inverted, frames)
    return DicomImage(own, "DICOM values in units of their modality", None, inverted, frames)
