import pytest
import torch
from torch import Tensor, nn

from domo.errors import LayoutMismatchError, StrayParameterError, TaskError
from domo.model.flat import (
    Entry,
    FlatModel,
    Layout,
    Section,
    as_bytes,
    byte_view,
    digest,
)


class Everything(nn.Module):
    """One tensor of each kind, in dtypes that are not the usual ones, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.tensor([1.5, -2.0], dtype=torch.float16), False)
        self.b = nn.Linear(3, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("mean", torch.tensor([[0.25], [0.5]], dtype=torch.float64))
        self.register_buffer("seen", torch.tensor(3))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("scratch", torch.zeros(4), persistent=False)


def test_entries_in_order() -> None:
    layout = Layout.of(Everything())
    assert layout.entries == (
        Entry("frozen", (2,), "float16", Section.FROZEN),
        Entry("a.weight", (2, 3), "float32", Section.TRAINABLE),
        Entry("a.bias", (2,), "float32", Section.TRAINABLE),
        Entry("mean", (2, 1), "float64", Section.FLOAT_BUFFER),
        Entry("seen", (), "int64", Section.INTEGER_BUFFER),
        Entry("mask", (3,), "bool", Section.INTEGER_BUFFER),
    )
    assert layout.aliases == {"b.weight": "a.weight"}
    assert layout.num_params == 8
    assert [layout.num_bytes(s) for s in Section] == [32, 8, 11, 4]
    assert layout.entries[4].numel == 1
    assert layout.entries[0].torch_dtype is torch.float16


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


def test_state_dict_is_the_module_s() -> None:
    flat = FlatModel(Everything())
    made, own = flat.layout.state_dict(flat.read_all()), flat.module.state_dict()
    assert made.keys() == own.keys()
    assert all(torch.equal(made[n], own[n]) and made[n].dtype == own[n].dtype for n in own)
    assert made["b.weight"].data_ptr() != made["a.weight"].data_ptr()
    Everything().load_state_dict(made)


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


def test_a_layout_survives_json() -> None:
    layout = Layout.of(Everything())
    again = Layout.from_json(layout.to_json())
    assert again == layout
    assert again.digest == layout.digest
    layout.check_same(again)


def test_a_mismatch_names_the_tensors() -> None:
    ours, theirs = nn.Sequential(nn.Linear(3, 2)), nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    with pytest.raises(LayoutMismatchError) as caught:
        Layout.of(ours).check_same(Layout.of(theirs))
    assert str(caught.value) == (
        "the silo's model does not match the run's: 0.weight: the run has float32[2, 3] "
        "(trainable), this silo has float32[2, 4] (trainable)"
    )
    assert len(caught.value.differences) == 1


def test_a_mismatch_of_many_tensors_is_short() -> None:
    small, large = (nn.Sequential(*(nn.Linear(1, 1) for _ in range(n))) for n in (1, 4))
    with pytest.raises(LayoutMismatchError, match=r"1\.weight: .*no such tensor.*\(and 3 more\)$"):
        Layout.of(large).check_same(Layout.of(small))
    with pytest.raises(LayoutMismatchError, match="the run has no such tensor"):
        Layout.of(small).check_same(Layout.of(large))


def test_a_mismatch_of_ties_alone() -> None:
    tied, free = nn.Module(), nn.Module()
    for module in (tied, free):
        module.a = nn.Linear(1, 1, bias=False)
    tied.b = tied.a
    with pytest.raises(LayoutMismatchError, match="in another order, or tied in another way"):
        Layout.of(tied).check_same(Layout.of(free))


def test_models_that_cannot_be_trained() -> None:
    with pytest.raises(TaskError, match=r"weight is float64; domo keeps float32 master weights"):
        FlatModel(nn.Linear(2, 2).double())
    with pytest.raises(TaskError, match="no trainable parameter"):
        FlatModel(nn.Linear(2, 2).requires_grad_(False))
    spread = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, device="meta"))
    with pytest.raises(TaskError, match=r"spread over devices \['cpu', 'meta'\]"):
        FlatModel(spread)


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


@pytest.mark.parametrize("section", [Section.TRAINABLE, Section.FLOAT_BUFFER])
def test_split_gives_views(section: Section) -> None:
    layout = Layout.of(Everything())
    vector: Tensor = torch.arange(float(sum(e.numel for e in layout.section(section))))
    for name, value in layout.split(section, vector).items():
        value.fill_(9.0)
        assert value.shape == {e.name: e.shape for e in layout.entries}[name]
    assert (vector == 9).all()
