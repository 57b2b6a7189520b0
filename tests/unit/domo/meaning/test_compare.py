"""Differences in words, and what is no difference."""

from typing import Any

import pytest

from domo.errors import MeaningMismatchError
from domo.inputs.form import InputForm
from domo.meaning.compare import check_all, described, differences, mismatch, unsaid
from domo.meaning.value import NOTHING, Kind, Meaning


def classes(*names: str) -> Meaning:
    return Meaning(classes=names)


def form(*shape: int | None, **said: Any) -> Meaning:
    return Meaning(input=InputForm(shape or None, **said))


def texts(own: Meaning, wanted: Meaning, **how: bool) -> list[str]:
    return [d.text for d in differences(own, wanted, **how)]


CATS = classes("ape", "bee", "cat")


@pytest.mark.parametrize(
    ("own", "wanted", "text"),
    [
        (classes("bee", "cat", "monkey"), CATS, "monkey is no class, ape is wanted: its classes"),
        (classes("cat", "bee", "ape"), CATS, "the order of the classes differs, 0 is cat where"),
        (classes("ape", "bee", "cat", "dog"), CATS, "it has 4 classes, wanted are 3, dog is too"),
        (classes("ape", "cat"), CATS, "it has 2 classes, wanted are 3, bee is missing"),
        (classes("ape", "dog"), CATS, "dog is too many and bee, cat is missing"),
        (Meaning(num_classes=4), CATS, "it has 4 classes, wanted are 3"),
        (form(1, 8, 8), form(3, 8, 8), "an input has the shape 1 x 8 x 8, wanted is 3 x 8 x 8"),
        (form(8), form(8, 8), "an input has the shape 8, wanted is 8 x 8"),
        (form(channels="BGR"), form(channels="RGB"), "the channels are BGR, wanted is RGB"),
        (form(values="0..255"), form(values="0..1"), "values are 0..255, wanted is 0..1"),
        (form(dtype="uint8"), form(dtype="float32"), "the type of inputs is int, wanted is float"),
        (form(aspect="pad"), form(aspect="crop"), "another shape are treated by pad, wanted is"),
        (form(value_range=(0, 9)), form(value_range=(0, 1)), "0 and 1 are 0 and 9, wanted is 0"),
        (form(mean=(1,), std=(2,)), form(mean=(1,), std=(3,)), "mean 1, std 2, wanted is mean 1,"),
        (Meaning(version="1"), Meaning(version="2"), "the version of the task is '1', wanted is"),
        (Meaning(labels=(1, 3)), CATS, "labels are 1..3, and 3 classes are 0..2, so they look"),
        (Meaning(labels=(0, 7)), CATS, "labels are 0..7, and 3 classes are 0..2"),
        (Meaning(labels=(-1, 2)), CATS, "labels are -1..2, and 3 classes are 0..2"),
    ],
)
def test_what_differs(own: Meaning, wanted: Meaning, text: str) -> None:
    (told,) = texts(own, wanted)
    assert text in told


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (NOTHING, CATS),
        (CATS, NOTHING),
        (CATS, CATS),
        (Meaning(labels=(1, 1)), CATS),
        (Meaning(labels=(5, 90)), Meaning(labels=(0, 3))),
        (form(3, None, 8), form(3, 16, 8)),
        (form(dtype="float16"), form(dtype="float32")),
        (form(dtype="bfloat16"), form(dtype="float64")),
        (form(dtype="uint8"), form(dtype="int64")),
        (form(mean=(1,)), NOTHING),
    ],
)
def test_what_does_not(own: Meaning, wanted: Meaning) -> None:
    assert texts(own, wanted) == []


KINDS: list[Kind] = ["", "0..1", "0..255", "above 255", "around 0", "wide"]


def test_kinds_of_numbers_differ_both_ways_or_not_at_all() -> None:
    odd = {(a, b) for a in KINDS for b in KINDS if texts(Meaning(kind=a), Meaning(kind=b))}
    assert odd == {(b, a) for a, b in odd}
    assert ("0..1", "0..255") in odd
    assert ("0..1", "around 0") in odd
    for pair in (("0..255", "above 255"), ("around 0", "wide"), ("", "0..1")):
        assert pair not in odd, "data may be so"


def test_classes_that_the_run_lists_have_to_be_said() -> None:
    assert texts(Meaning(num_classes=3), CATS, listed=False) == []
    (told,) = texts(Meaning(num_classes=3), CATS, listed=True)
    assert told == "it does not say its classes; the run has ape (0), bee (1), cat (2)"
    assert texts(CATS, CATS, listed=True) == []


def test_long_lists_are_cut() -> None:
    many = [f"class-{i}" for i in range(10_000)]
    (told,) = texts(classes(*reversed(many)), classes(*many))
    assert told.count("(10000 in all)") == 2
    assert len(told) < 700
    (told,) = texts(classes(*(f"x{n}" for n in many)), classes(*many))
    assert "... (10000 in all): its classes are" in told
    assert len(told) < 900


def test_the_error_has_every_difference_and_each_cure_once() -> None:
    own = Meaning(version="1", kind="0..255", input=InputForm((1, 8)), classes=("a", "c"))
    wanted = Meaning(version="2", kind="0..1", input=InputForm((3, 8)), classes=("a", "b"))
    error = mismatch(differences(own, wanted))
    assert len(error.differences) == 4
    assert all(d in str(error) for d in error.differences)
    assert str(error).startswith("this silo's data mean something else than the run's: the names")
    assert str(error).count("Read the data as the other silos do") == 1
    assert "classes = [...] in the run" in str(error)


def test_silos_of_a_simulation_are_compared_one_after_another() -> None:
    check_all(None, [("a", NOTHING), ("b", CATS), ("c", CATS)])
    with pytest.raises(MeaningMismatchError, match=r"the data of c mean something else.*'2'"):
        check_all(None, [("a", Meaning(version="1")), ("b", CATS), ("c", Meaning(version="2"))])
    with pytest.raises(MeaningMismatchError, match=r"the data of a .*bee is missing"):
        check_all(CATS.classes, [("a", classes("ape", "cat"))])


def test_what_is_left_open() -> None:
    full = CATS.filled(form(3, 8, 8, channels="RGB", mean=(0.5,))).filled(Meaning(version="1"))
    assert unsaid(full, full) == []
    assert unsaid(NOTHING, NOTHING) == []
    assert unsaid(form(3, 8, 8), full) == [
        "its classes",
        "the order of channels",
        "the normalisation of inputs",
        "the version of its task",
    ]


def test_a_meaning_in_words() -> None:
    said = Meaning(
        classes=("0", "one"),
        input=InputForm(
            (3, None), "RGB", "float32", "0..1", "pad", (0, 9), mean=(0.5,), std=(0.25,)
        ),
        labels=(0, 1),
        version="7",
    )
    assert described(said) == [
        "2 classes: 0, one (1)",
        "inputs: 3 x any, RGB, float32, values 0..1, mean 0.5, std 0.25, aspect by pad, "
        "0 and 9 read as 0 and 1",
        "labels 0..1",
        "version '7' of the task",
    ]
    assert described(NOTHING) == []
    assert described(Meaning(num_classes=4, kind="wide")) == [
        "4 classes without names",
        "inputs: values far below 0 and above it",
    ]


def test_a_newer_coordinator_may_compare_what_this_version_does_not() -> None:
    text = str(mismatch([]))
    assert text.startswith("this silo's data mean something else than the run's: the coordinator")
    assert text.endswith(
        "Use the coordinator's version of domo here: it compares more than this one"
    )
