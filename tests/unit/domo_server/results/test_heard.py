"""Whose numbers can be added to whose, and how much a silo may send of them."""

import tracemalloc
from typing import Any

import pytest

from domo import metrics
from domo.errors import ProtocolError
from domo.metrics import Sum, Table
from domo_server.results.heard import MOST_NAMES, Heard
from domo_server.results.numbers import metric_points
from domo_server.store.measured import table_row


def confusion(*classes: str) -> Table:
    return metrics.confusion([0, 1], predictions=[1, 1], classes=classes)


CATS, DOGS = {"m": confusion("ape", "cat")}, {"m": confusion("ape", "dog")}


def test_a_silo_that_is_left_out_is_no_measure_of_tables() -> None:
    dropped: dict[str, str] = {}
    heard = Heard(dropped)
    assert heard.apart("a", DOGS) == {}
    heard.add("a", DOGS, 2)
    for wrong, text in ((CATS, "classes ape, cat cannot be added"), ({"m": Sum(1, 2)}, "a sum")):
        (why, others) = heard.apart("b", wrong)["m"]
        assert text in why
        assert others == ["a"]
    dropped["a"] = "it counts other classes"
    assert heard.apart("b", CATS) == {}
    unlike = heard.unlike("b", CATS)
    assert unlike == [("a", "m")]
    heard.add("b", CATS, 2, unlike)
    assert heard.apart("c", CATS) == {}
    dropped.clear()
    assert heard.apart("c", CATS) == {}
    assert "classes ape, dog cannot be added" in heard.apart("a", DOGS)["m"].why


def hear(heard: Heard, silo_id: str, measured: dict[str, Any]) -> bool:
    """Whether all of it is taken."""
    apart = heard.apart(silo_id, measured)
    kept = {name: one for name, one in measured.items() if name not in apart}
    heard.add(silo_id, measured, 2, heard.unlike(silo_id, kept), apart)
    return not apart


def test_one_that_comes_first_with_another_meaning_gives_way_to_most() -> None:
    heard, sums = Heard({}), {"m": Sum(1, 2)}
    assert hear(heard, "liar", DOGS)
    assert not hear(heard, "a", CATS), "of two the first is the measure"
    assert heard.unlike("b", CATS) == [("liar", "m")]
    assert hear(heard, "b", CATS)
    assert heard.unlike("a", CATS) == [], "they have gone"
    assert hear(heard, "a", CATS)
    assert not hear(heard, "liar", DOGS)
    assert not hear(heard, "liar", sums)
    assert hear(heard, "liar", CATS)


def test_of_two_the_first_stays_the_measure() -> None:
    heard = Heard({})
    assert hear(heard, "a", CATS)
    for _ in range(2):
        assert not hear(heard, "liar", DOGS)
        assert hear(heard, "a", CATS)


def test_it_is_the_same_after_a_restart() -> None:
    heard = Heard({})
    heard.recall([("a", "loss")], [table_row(0, "a", "m", DOGS["m"])])
    why, _ = heard.apart("b", {"loss": DOGS["m"]})["loss"]
    assert why == "it is a sum at other silos, and a table here"
    assert "cannot be added" in heard.apart("b", CATS)["m"].why


def test_a_silo_with_other_names_each_time_is_refused_and_costs_no_memory() -> None:
    heard, table = Heard({}), metrics.auc([0, 1], logits=[0.0, 1.0])
    tracemalloc.start()
    for i in range(MOST_NAMES):
        heard.check("a", {f"m{i}": table})
        heard.add("a", {f"m{i}": table}, 2)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 4 * table.values.nbytes
    heard.check("a", {"m0": table})
    heard.check("b", {"new": table})
    with pytest.raises(ProtocolError, match=f"more than {MOST_NAMES} names"):
        heard.check("a", {"new": table})


def test_tables_of_many_silos_are_not_unpacked_at_once() -> None:
    table = metrics.auc([0, 1], logits=[0.0, 1.0])
    rows = [table_row(0, f"s{i:02}", "auc", table) for i in range(40)]
    tracemalloc.start()
    (point,) = metric_points([], rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (point.metrics["auc"], point.num_silos) == (1.0, 40)
    assert peak < 10 * table.values.nbytes
