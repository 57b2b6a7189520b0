"""Whose whole numbers a round takes."""

import torch
from torch import nn

from domo.model.flat import byte_view
from domo.model.integers import choose_integers
from domo.model.layout import Layout


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("count", torch.tensor(10))
        self.register_buffer("classes", torch.tensor([3, 1, 2]))
        self.register_buffer("on", torch.tensor([True, False]))


LAYOUT = Layout.of(Net())


def numbers(count: int, classes: tuple[int, ...] = (3, 1, 2), on: bool = True) -> torch.Tensor:
    parts = (torch.tensor([count]), torch.tensor(classes), torch.tensor([on, False]))
    return torch.cat([torch.frombuffer(bytearray(byte_view(p)), dtype=torch.uint8) for p in parts])


def chosen(*given: torch.Tensor, steps: tuple[int, ...]) -> int:
    read = [lambda one=one: one for one in given]
    found = choose_integers(LAYOUT, numbers(10), read, steps)
    return next(i for i, one in enumerate(given) if torch.equal(one, found))


def test_silos_that_count_their_steps_agree_and_the_first_is_taken() -> None:
    assert chosen(numbers(15), numbers(30), numbers(30), steps=(5, 20, 20)) == 0


def test_a_first_that_is_alone_against_most_is_not() -> None:
    assert chosen(numbers(0), numbers(30), numbers(15), steps=(5, 20, 5)) == 1
    odd = numbers(15, classes=(1, 2, 3))
    assert chosen(odd, numbers(15), numbers(15), steps=(5, 5, 5)) == 1
    assert chosen(numbers(15, on=False), numbers(15), numbers(15), steps=(5, 5, 5)) == 1


def test_where_each_has_its_own_and_with_two_there_is_no_majority() -> None:
    assert chosen(numbers(11), numbers(12), numbers(13), steps=(5, 5, 5)) == 0
    assert chosen(numbers(11), numbers(15), steps=(5, 5)) == 0
    assert chosen(numbers(-(2**63)), numbers(2**63 - 1), steps=(5, 5)) == 0
