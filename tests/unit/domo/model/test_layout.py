import pytest
import torch
from torch import Tensor, nn

from domo.errors import LayoutMismatchError, TaskError
from domo.model.flat import FlatModel
from domo.model.layout import Entry, Layout, Section
from tests.support.modules import Everything


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
    assert [layout.num_bytes(s) for s in Section] == [32, 8, 11, 4, 0]
    assert layout.entries[4].numel == 1
    assert layout.entries[0].torch_dtype is torch.float16


def test_state_dict_is_the_module_s() -> None:
    flat = FlatModel(Everything())
    made, own = flat.layout.state_dict(flat.read_all()), flat.module.state_dict()
    assert made.keys() == own.keys()
    assert all(torch.equal(made[n], own[n]) and made[n].dtype == own[n].dtype for n in own)
    assert made["b.weight"].data_ptr() != made["a.weight"].data_ptr()
    Everything().load_state_dict(made)


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


@pytest.mark.parametrize("section", [Section.TRAINABLE, Section.FLOAT_BUFFER])
def test_split_gives_views(section: Section) -> None:
    layout = Layout.of(Everything())
    vector: Tensor = torch.arange(float(sum(e.numel for e in layout.section(section))))
    for name, value in layout.split(section, vector).items():
        value.fill_(9.0)
        assert value.shape == {e.name: e.shape for e in layout.entries}[name]
    assert (vector == 9).all()
