"""The paper's models, and two small ones that train in seconds on a CPU.

None has batch normalisation: batch statistics of skewed data differ between silos.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of VGG-16's convolutions; 0 is a 2x2 max pooling."""


def _init_convolutions(model: nn.Module) -> None:
    """He et al.'s normal initialisation by fan-in, zero biases."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def mlp(sizes: Sequence[int] = (196, 64, 10)) -> nn.Sequential:
    """Fully connected layers with ReLU between; the input is flattened.

    He-normal weights, at half scale in the last layer; zero biases.

    Args:
        sizes: Features of the input, of each hidden layer, and of the output.
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(sizes):
        linear = nn.Linear(fan_in, fan_out)
        nn.init.normal_(linear.weight, std=math.sqrt(2 / fan_in))
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    with torch.no_grad():
        linear.weight.mul_(0.5)
    return nn.Sequential(*layers[:-1])


def small_cnn(
    in_channels: int = 1,
    image_size: int | tuple[int, int] = 8,
    num_classes: int = 10,
    widths: tuple[int, int] = (16, 32),
) -> nn.Sequential:
    """Two 3x3 convolutions, each with ReLU and 2x2 max pooling, and a linear classifier.

    Args:
        in_channels: Channels of the images.
        image_size: Pixels of a square, or height and width.
        num_classes: Outputs.
        widths: Channels of the two convolutions.
    """
    first, second = widths
    height, width = (image_size,) * 2 if isinstance(image_size, int) else image_size
    return nn.Sequential(
        nn.Conv2d(in_channels, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (height // 4) * (width // 4), num_classes),
    )


def vgg16(num_classes: int = 10, dropout: float = 0.0) -> nn.Sequential:
    """VGG-16 for 3x32x32 images: 13 convolutions and one linear layer 512 -> classes.

    No batch normalisation; dropout before the classifier only where asked for.

    Args:
        num_classes: Outputs.
        dropout: Probability of dropping a feature.

    Source: Simonyan and Zisserman, ICLR-15, configuration D, with the usual CIFAR head.
    """
    layers: list[nn.Module] = []
    channels = 3
    for width in VGG16:
        if width:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
    classifier = nn.Linear(channels, num_classes)
    nn.init.normal_(classifier.weight, std=0.01)
    nn.init.zeros_(classifier.bias)
    drop = [nn.Dropout(dropout)] if dropout else []
    model = nn.Sequential(*layers, nn.Flatten(), *drop, classifier)
    _init_convolutions(model)
    return model


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with GroupNorm(8) and a shortcut without parameters.

    Where the shape changes the shortcut is option A of the original paper: every other pixel, and
    zeros for the new channels.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(8, out_channels)
        self.stride = stride
        self.new_channels = out_channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Shape (N, in, H, W) -> (N, out, H/stride, W/stride)."""
        out = functional.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        if self.new_channels:
            half = self.new_channels // 2
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, half, self.new_channels - half))
        return functional.relu(out + x)


class ResNet(nn.Module):
    """CIFAR ResNet for 3x32x32 images: three stages of 16, 32 and 64 channels, GroupNorm(8).

    Args:
        depth: 6n + 2, such as 20 or 56.
        num_classes: Outputs.

    Raises:
        ValueError: The depth is not 6n + 2.

    Source: He et al., CVPR-16, section 4.2, option A; the DOMO paper puts GroupNorm for batch norm.
    """

    def __init__(self, depth: int, num_classes: int = 10):
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise ValueError(f"a CIFAR ResNet has depth 6n + 2 (20, 32, 56, ...), not {depth}")
        blocks, channels = [], 16
        for width in (16, 32, 64):
            for i in range(depth // 6):
                stride = 2 if i == 0 and width > 16 else 1
                blocks.append(ResidualBlock(channels, width, stride))
                channels = width
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(8, 16)
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(64, num_classes)
        _init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        """Images of shape (N, 3, 32, 32) -> logits of shape (N, num_classes)."""
        x = self.blocks(functional.relu(self.norm(self.conv(x))))
        logits: Tensor = self.classifier(x.mean((2, 3)))
        return logits


def resnet20(num_classes: int = 10) -> ResNet:
    """ResNet-20 (0.27 M parameters)."""
    return ResNet(20, num_classes)


def resnet56(num_classes: int = 10) -> ResNet:
    """ResNet-56 (0.85 M parameters)."""
    return ResNet(56, num_classes)
