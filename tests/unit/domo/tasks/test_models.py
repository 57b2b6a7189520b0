import math

import pytest
import torch
from torch import nn

from domo.tasks import models


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("build", "num_classes", "num_parameters"),
    [
        (models.vgg16, 10, 14_719_818),
        (models.vgg16, 100, 14_765_988),
        (models.resnet20, 10, 269_722),
        (models.resnet56, 10, 853_018),
        (models.resnet56, 100, 858_868),
    ],
)
def test_the_papers_models_have_their_published_size(build, num_classes, num_parameters):
    model = build(num_classes)
    assert count(model) == num_parameters
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, num_classes)


def test_no_model_has_batch_norm_or_buffers_and_resnets_have_groups_of_8():
    for build in (models.vgg16, models.resnet20, models.resnet56, models.small_cnn, models.mlp):
        model = build()
        assert not any("BatchNorm" in type(m).__name__ for m in model.modules())
        assert not list(model.buffers())
    groups = [m for m in models.resnet20().modules() if isinstance(m, nn.GroupNorm)]
    assert len(groups) == 19
    assert {m.num_groups for m in groups} == {8}


def test_a_resnets_shortcut_has_no_parameters_and_keeps_every_other_pixel():
    block = models.ResidualBlock(16, 32, stride=2)
    assert {name.split(".")[0] for name, _ in block.named_parameters()} == {
        "conv1",
        "norm1",
        "conv2",
        "norm2",
    }
    nn.init.zeros_(block.norm2.weight)
    x = torch.rand(1, 16, 8, 8)
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_a_resnet_of_another_depth_is_refused():
    with pytest.raises(ValueError, match=r"6n \+ 2 .* not 34"):
        models.ResNet(34)


def test_vgg_has_dropout_only_where_asked_for():
    assert not any(isinstance(m, nn.Dropout) for m in models.vgg16().modules())
    assert [m.p for m in models.vgg16(dropout=0.5).modules() if isinstance(m, nn.Dropout)] == [0.5]


def test_the_mlp_is_196_64_10_with_he_normal_weights_and_half_scale_at_the_end():
    model = models.mlp((196, 4096, 10))
    assert count(models.mlp()) == 196 * 64 + 64 + 64 * 10 + 10
    first, last = (m for m in model if isinstance(m, nn.Linear))
    assert float(first.weight.detach().std()) == pytest.approx(math.sqrt(2 / 196), rel=0.02)
    assert float(last.weight.detach().std()) == pytest.approx(0.5 * math.sqrt(2 / 4096), rel=0.02)
    assert not first.bias.any()
    assert not last.bias.any()
    assert models.mlp()(torch.randn(3, 1, 14, 14)).shape == (3, 10)


@pytest.mark.parametrize(("channels", "size"), [(1, 8), (1, 28), (3, 32)])
def test_the_cnn_takes_images_of_any_size(channels, size):
    model = models.small_cnn(channels, size, num_classes=7)
    assert model(torch.randn(2, channels, size, size)).shape == (2, 7)
    convolutions = [m.out_channels for m in model if isinstance(m, nn.Conv2d)]
    assert convolutions == [16, 32]


def test_models_depend_on_the_seed_alone():
    for build in (models.mlp, models.small_cnn, models.resnet20):
        torch.manual_seed(3)
        one = build().state_dict()
        torch.manual_seed(3)
        two = build().state_dict()
        assert all(torch.equal(a, b) for a, b in zip(one.values(), two.values(), strict=True))
