"""Random augmentation of a collated batch, as a function of the given generator alone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

Augment = Callable[[Any, torch.Generator], tuple[Tensor, Tensor]]


def augmentation(mean: Sequence[float], std: Sequence[float]) -> Augment:
    """The paper's: random crops with padding 4 and random flips.

    Args:
        mean: What was taken off each channel, in units of the pixel range 0..1.
        std: What each channel was then divided by.
    """
    return partial(crop_and_flip, black=-torch.tensor(mean) / torch.tensor(std))


def crop_and_flip(
    batch: Any, generator: torch.Generator, black: Tensor, padding: int = 4
) -> tuple[Tensor, Tensor]:
    """Random crops of the padded images, of their own size, each flipped with probability 1/2.

    Args:
        batch: Images of shape (N, C, H, W), standardised, and labels; on the CPU.
        generator: Where all randomness comes from.
        black: The value of a black pixel for each channel, shape (C,); the border is filled with
            it, as when bitmaps are padded before they are standardised.
        padding: Pixels added on each side.

    Returns:
        The new images and the same labels.
    """
    images, labels = batch
    return crop(images, draw_crops(len(images), generator, padding), black, padding), labels


class Crops(NamedTuple):
    """Where each of n images is cropped, and whether it is flipped; each of shape (n, 1)."""

    top: Tensor
    left: Tensor
    flipped: Tensor


def draw_crops(n: int, generator: torch.Generator, padding: int = 4) -> Crops:
    """All randomness of `crop_and_flip`."""
    top = torch.randint(2 * padding + 1, (n, 1), generator=generator)
    left = torch.randint(2 * padding + 1, (n, 1), generator=generator)
    return Crops(top, left, torch.randint(2, (n, 1), generator=generator).bool())


def crop(images: Tensor, crops: Crops, black: Tensor, padding: int = 4) -> Tensor:
    """What `crop_and_flip` makes of images; all on one device, the images' own."""
    n, _, height, width = images.shape
    padded = black.view(1, -1, 1, 1).repeat(n, 1, height + 2 * padding, width + 2 * padding)
    padded[:, :, padding : padding + height, padding : padding + width] = images
    rows = crops.top + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    columns = crops.left + torch.where(crops.flipped, columns.flip(0), columns)
    which = torch.arange(n, device=images.device)[:, None, None]
    out = padded[which, :, rows[:, :, None], columns[:, None, :]]
    return out.permute(0, 3, 1, 2).contiguous()
