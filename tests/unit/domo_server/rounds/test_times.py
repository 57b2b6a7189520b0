"""Where the time of a round goes: marks on a clock that the test moves, and what they come to."""

from collections.abc import Callable

import pytest

from domo.api.round_times import SiloTimes
from domo_server.rounds.times import MOST_PAUSES, TimesOfRound
from tests.support.played.clock import Clock


class Played:
    """A round's times, with the clock that they are taken from; the round opens at 100 s."""

    def __init__(self, *silos: str):
        self.clock = Clock()
        self.clock.now = 100.0
        self.times = TimesOfRound(self.clock, silos)

    def at(self, seconds: float, mark: Callable[..., None], *said: object) -> None:
        """A mark so many seconds after the opening."""
        self.clock.now = 100.0 + seconds
        mark(*said)

    def trained(self, silo: str, *at: float) -> None:
        """A whole round of a silo: fetches, has fetched, tested, uploads, accepted."""
        t = self.times
        self.at(at[0], t.fetches, silo, True, True)
        self.at(at[1], t.fetched, silo)
        self.at(at[2], t.tested, silo)
        self.at(at[3], t.uploads, silo, "d")
        self.at(at[4], t.accepted, silo)

    def end(self, seconds: float) -> dict[str, SiloTimes]:
        self.clock.now = 100.0 + seconds
        return dict(self.times.result().silos)


def parts(times: SiloTimes) -> list[float | None]:
    return [times.fetch_s, times.test_s, times.train_s, times.upload_s, times.wait_s]


def test_the_parts_of_a_silo_fill_the_round() -> None:
    it = Played("a", "b")
    it.trained("a", 1, 3, 4, 9, 11)
    it.trained("b", 0, 1, 2, 20, 24)
    silos = it.end(25)
    assert silos["a"] == SiloTimes(
        fetch_at_s=1, fetch_s=2, test_s=1, train_s=5, upload_s=2, wait_s=1 + 14
    )
    assert [sum(v or 0 for v in parts(s)) for s in silos.values()] == [25, 25]


def test_transfers_that_broke_count_as_one_with_their_tries() -> None:
    it, t = Played("a"), None
    t = it.times
    for at in (1, 4, 6):
        it.at(at, t.fetches, "a", False, True)
    it.at(8, t.fetched, "a")
    it.at(10, t.uploads, "a", "d")
    it.at(14, t.fetches, "a", False, True)  # its process died, and sends what it has made
    it.at(14, t.fetched, "a")
    it.at(15, t.uploads, "a", "d")
    it.at(18, t.accepted, "a")
    wanted = SiloTimes(
        fetch_at_s=1,
        fetch_s=7,
        train_s=2,
        upload_s=8,
        wait_s=3,
        tries={"fetch": 3, "upload": 2},
    )
    assert it.end(20)["a"] == wanted


def test_a_round_that_failed_at_a_silo_and_was_made_again_is_its_training() -> None:
    it = Played("a")
    t = it.times
    it.at(0, t.fetches, "a", False, True)
    it.at(1, t.fetched, "a")
    it.at(5, t.failed, "a")
    assert it.end(8)["a"] == SiloTimes(
        fetch_at_s=0, fetch_s=1, train_s=4, wait_s=3, unfinished="train"
    )
    it.at(9, t.fetches, "a", False, True)
    it.at(9, t.fetched, "a")
    it.at(15, t.uploads, "a", "d")
    it.at(16, t.accepted, "a")
    found = it.end(16)["a"]
    assert (found.train_s, found.tries, found.unfinished) == (14, {"train": 2}, None)


def test_an_update_that_was_refused_is_followed_by_another() -> None:
    it = Played("a")
    t = it.times
    it.at(0, t.fetches, "a", False, True)
    it.at(1, t.fetched, "a")
    it.at(2, t.uploads, "a", "d")
    it.at(3, t.accepted, "a")
    it.at(4, t.failed, "a")
    assert it.end(5)["a"].unfinished == "upload"
    it.at(6, t.fetches, "a", False, True)
    it.at(8, t.uploads, "a", "another")
    it.at(9, t.accepted, "a")
    found = it.end(9)["a"]
    assert (found.train_s, found.upload_s, found.wait_s) == (7, 1, 0)
    assert found.tries == {"train": 2}


@pytest.mark.parametrize(
    ("marks", "wanted"),
    [
        ([], SiloTimes(wait_s=30)),
        (["fetches"], SiloTimes(fetch_at_s=1, fetch_s=29, wait_s=1, unfinished="fetch")),
        (
            ["fetches", "fetched"],
            SiloTimes(fetch_at_s=1, fetch_s=1, train_s=28, wait_s=1, unfinished="train"),
        ),
        (
            ["fetches", "fetched", "uploads"],
            SiloTimes(
                fetch_at_s=1, fetch_s=1, train_s=1, upload_s=27, wait_s=1, unfinished="upload"
            ),
        ),
    ],
)
def test_a_silo_that_the_round_is_closed_without(marks: list[str], wanted: SiloTimes) -> None:
    it = Played("a")
    said: dict[str, tuple[object, ...]] = {"fetches": (False, True), "uploads": ("d",)}
    for at, mark in enumerate(marks, 1):
        it.at(at, getattr(it.times, mark), "a", *said.get(mark, ()))
    assert it.end(30)["a"] == wanted


def test_who_only_tests_waits_for_the_rest_of_the_round() -> None:
    it = Played("a")
    t = it.times
    for silo, tested in (("judge", 5), ("slow-judge", None)):
        it.at(1, t.fetches, silo, True, False)
        it.at(2, t.fetched, silo)
        if tested is not None:
            it.at(tested, t.tested, silo)
    silos = it.end(9)
    assert silos["judge"] == SiloTimes(fetch_at_s=1, fetch_s=1, test_s=3, wait_s=5)
    assert silos["slow-judge"] == SiloTimes(
        fetch_at_s=1, fetch_s=1, test_s=7, wait_s=1, unfinished="test"
    )


def test_a_heartbeat_is_only_when_a_phase_was_seen() -> None:
    """Of a test without numbers: it was over when the silo was first seen in training."""
    it = Played("a", "b")
    t = it.times
    for silo in ("a", "b"):
        it.at(0, t.fetches, silo, True, True)
        it.at(1, t.fetched, silo)
    it.at(4, t.seen_training, "a")
    it.at(6, t.seen_training, "a")
    for silo in ("a", "b"):
        it.at(8, t.uploads, silo, "d")
        it.at(9, t.accepted, silo)
    silos = it.end(9)
    assert (silos["a"].test_s, silos["a"].train_s) == (3, 4)
    assert (silos["b"].test_s, silos["b"].train_s) == (None, 7)
    it.times.seen_training("nobody")
    assert set(it.end(9)) == {"a", "b"}, "a heartbeat makes no row"


def test_what_was_before_a_restart_is_not_known() -> None:
    """a had been accepted before, b trained, c has begun anew, nothing is heard of d."""
    it = Played("a", "b", "c", "d")
    t = it.times
    t.interrupted = True
    t.accepted("a", before_restart=True)
    it.at(5, t.uploads, "b", "d")
    it.at(6, t.accepted, "b")
    it.trained("c", 1, 2, 3, 7, 8)
    it.clock.now = 110.0
    whole = t.result()
    assert whole.interrupted
    assert whole.silos["a"] == SiloTimes(wait_s=10)
    assert whole.silos["b"] == SiloTimes(upload_s=1, wait_s=4)
    assert sum(v or 0 for v in parts(whole.silos["c"])) == 10
    assert whole.silos["d"] == SiloTimes()


def test_what_the_coordinator_does() -> None:
    it = Played("a")
    t = it.times
    it.at(2, t.committed_before)
    it.at(3, t.paused)
    it.at(5, lambda: None)
    assert t.working_s == 3
    it.at(7, t.resumed)
    assert t.working_s == 3
    it.at(12, t.fixed)
    it.at(13, t.folding)
    it.clock.now = 116.0
    found = t.result()
    assert (found.span_s, found.collect_s, found.fold_s, found.commit_s) == (16, 12, 3, 2)
    assert (found.paused_s, found.pauses) == (4, [(3, 7)])
    for at in range(20, 60, 2):
        it.at(at, t.paused)
        it.at(at + 1, t.resumed)
    it.clock.now = 160.0
    assert (t.result().paused_s, len(t.result().pauses)) == (24, MOST_PAUSES)


def test_what_comes_after_its_end_is_of_the_next_round() -> None:
    it = Played("a")
    it.trained("a", 0, 1, 2, 3, 4)
    it.at(6, it.times.ended)
    before = it.times.result()
    it.at(9, it.times.uploads, "a", "another")
    it.at(9, it.times.fetches, "b", True, True)
    assert it.times.result() == before
    assert (before.span_s, it.times.working_s, set(before.silos)) == (6, 6, {"a"})
