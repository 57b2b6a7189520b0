import pytest
import torch
from torch import nn

from domo.errors import StrayParameterError
from domo.model.flat import FlatModel, as_bytes, byte_view, digest
from domo.model.layout import Section
from tests.support.modules import Everything


def test_sections_go_out_and_come_back() -> None:
    module = Everything()
    flat = FlatModel(module)
    vectors = flat.read_all()
    sizes = {s: v.numel() * v.element_size() for s, v in vectors.items()}
    assert sizes == {s: flat.layout.num_bytes(s) for s in Section}
    other = FlatModel(Everything())
    with torch.no_grad():
        for tensor in [*other.module.parameters(), *other.module.buffers()]:
            tensor.zero_()
    for section, values in vectors.items():
        other.load(section, values)
    mine, theirs = module.state_dict(), other.module.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert {n: t.dtype for n, t in mine.items()} == {n: t.dtype for n, t in theirs.items()}


def test_parameters_are_views() -> None:
    module = Everything()
    flat = FlatModel(module)
    assert torch.equal(flat.vector[:6], module.a.weight.detach().reshape(-1))
    with torch.no_grad():
        flat.vector.fill_(2.5)
    assert module.a.weight.tolist() == [[2.5] * 3] * 2
    assert module.b.weight.tolist() == module.a.weight.tolist()
    module.a.bias.data.fill_(-1.0)
    assert flat.vector[6:].tolist() == [-1.0, -1.0]
    module.a(torch.ones(3)).sum().backward()
    assert module.a.weight.grad is not None


def test_read_is_a_copy() -> None:
    flat = FlatModel(nn.Linear(2, 1))
    before = flat.read(Section.TRAINABLE)
    with torch.no_grad():
        flat.vector.add_(1)
    assert not torch.equal(before, flat.vector)
    assert flat.read(Section.FLOAT_BUFFER).shape == (0,)
    assert flat.read(Section.FROZEN).dtype == torch.uint8


def test_stray_parameters_are_named() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    flat = FlatModel(module)
    flat.check()
    module[1].weight = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(StrayParameterError, match=r"handed over: 1\.weight\.") as caught:
        flat.check()
    assert caught.value.names == ("1.weight",)


def test_a_model_that_was_moved_is_seen() -> None:
    module = nn.Linear(2, 2)
    flat = FlatModel(module)
    module.double()
    with pytest.raises(StrayParameterError) as caught:
        flat.check()
    assert caught.value.names == ("weight", "bias")


def test_changes_in_place_are_fine() -> None:
    module = nn.Linear(2, 2)
    flat = FlatModel(module)
    module.load_state_dict({k: v + 1 for k, v in module.state_dict().items()})
    module.float()
    module.zero_grad()
    flat.check()


def test_bytes_are_little_endian_and_in_order() -> None:
    got = as_bytes(
        [torch.tensor([1, 258]), torch.tensor(True), torch.tensor([[-1]]).to(torch.int8)]
    )
    assert got.tolist() == [1, *[0] * 7, 2, 1, *[0] * 6, 1, 255]
    assert as_bytes([]).numel() == 0


def test_digest_names_content() -> None:
    vector = torch.arange(5.0)
    assert digest(vector) == digest(vector.clone())
    assert len(digest(vector)) == 32
    changed = vector.clone()
    changed[3] = torch.nextafter(changed[3], torch.tensor(10.0))
    assert digest(changed) != digest(vector)
    assert digest(torch.tensor([0.0])) != digest(torch.tensor([-0.0]))


def test_a_byte_view_is_no_copy() -> None:
    vector = torch.zeros(2)
    view = byte_view(vector)
    assert view.nbytes == 8
    vector[1] = 1.0
    assert bytes(view) == b"\0\0\0\0\0\0\x80?"


def test_frozen_parameters_have_the_digest_of_their_copy_and_are_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2).half(), nn.Linear(2, 1))
    for frozen in (*module[0].parameters(), *module[1].parameters()):
        frozen.requires_grad_(False)
    module[0].weight.data = torch.randn(3, 2).T  # not contiguous
    flat = FlatModel(module)
    expected = digest(flat.read(Section.FROZEN))
    monkeypatch.setattr("domo.model.flat.torch.cat", None)
    assert flat.frozen_digest() == expected
    assert flat.frozen_digests()["0.bias"] == digest(module[0].bias)


def test_no_frozen_parameters_have_the_digest_of_nothing() -> None:
    flat = FlatModel(nn.Linear(2, 2))
    assert flat.frozen_digest() == digest(flat.read(Section.FROZEN))
