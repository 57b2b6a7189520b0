"""Whose word is the measure, through restarts, returns and drops; silos are played."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from domo.errors import ConfigError, MeaningMismatchError, ProtocolError
from domo.inputs.form import InputForm
from domo.meaning.value import NOTHING, Meaning
from domo_proto.v1 import federation_pb2 as pb
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.played.lab import RUN_ID, Lab, life, play
from tests.support.played.raw import Raw, fault

A, B, C = "site-a", "site-b", "site-c"
CATS = Meaning(classes=("ape", "bee", "cat"))
DOGS = Meaning(classes=("ape", "bee", "dog"))
RGB = Meaning(input=InputForm(channels="RGB"))
BGR = Meaning(input=InputForm(channels="BGR"))


async def refuses(lab: Lab, name: str, meaning: Meaning, match: str) -> None:
    before = lab.run.roster.enrolled.get(name)
    with pytest.raises(MeaningMismatchError, match=match):
        await lab.enroll(name, meaning=meaning)
    assert lab.run.roster.enrolled.get(name) == before


async def lines(lab: Lab) -> list[str]:
    detail = await lab.view.run(RUN_ID)
    assert detail is not None
    return list(detail.meaning)


def test_the_first_to_say_a_thing_is_the_measure_of_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=3) as lab:
            await lab.enroll(A, meaning=CATS)
            await lab.enroll(B, meaning=RGB)
            await refuses(lab, C, DOGS, "the data of site-c mean .* dog is no class, cat is wanted")
            await refuses(lab, C, CATS.filled(BGR), "the channels are BGR, wanted is RGB")
            assert await lab.events("meaning") == [
                "site-a is the first to say what data mean here: "
                "3 classes: ape (0), bee (1), cat (2)",
                "site-b is the first to say what data mean here: inputs: RGB",
                "site-b does not say its classes: nobody can compare that",
            ]
            assert await lines(lab) == ["3 classes: ape (0), bee (1), cat (2)", "inputs: RGB"]
            assert lab.run.state.phase == "WAITING"
            await lab.enroll(C, meaning=CATS.filled(RGB))
            await lab.round_open(0)

    play(go())


def test_the_same_after_a_restart_and_for_who_comes_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A, meaning=CATS)
            await lab.enroll(B, meaning=RGB)
            await lab.round_open(0)
        async with life(tmp_path, num_silos=2) as lab:
            assert await lines(lab) == ["3 classes: ape (0), bee (1), cat (2)", "inputs: RGB"]
            await refuses(lab, B, DOGS, "dog is no class")
            await refuses(lab, A, DOGS, "dog is no class")
            await refuses(lab, A, CATS.filled(BGR), "wanted is RGB")
            await lab.enroll(A, meaning=CATS)
            await lab.enroll(B, meaning=NOTHING)
            assert await lab.events("refused") == [], "that is for the rpc to say"

    play(go())


def test_a_silo_alone_may_mend_its_data_until_the_run_begins(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A, meaning=DOGS)
            await lab.enroll(A, meaning=CATS)
            assert await lines(lab) == ["3 classes: ape (0), bee (1), cat (2)"]
            await refuses(lab, B, DOGS, "dog is no class")
            await lab.enroll(B, meaning=CATS)
            await lab.round_open(0)
            await refuses(lab, A, DOGS, "dog is no class")

    play(go())


def test_a_silo_that_is_left_out_is_no_measure(tmp_path: Path) -> None:
    """The first is the one that is wrong: the admin drops it, and the others may come."""

    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A, meaning=DOGS.filled(RGB))
            await refuses(lab, B, CATS, "cat is no class, dog is wanted")
            await lab.view.drop(A, "another list of classes")
            await lab.enroll(B, meaning=CATS)
            await lab.enroll(C, meaning=CATS.filled(BGR))
            assert await lab.events("meaning") == [
                "site-a is the first to say what data mean here: "
                "3 classes: ape (0), bee (1), dog (2); inputs: RGB",
                "site-b is the first to say what data mean here: "
                "3 classes: ape (0), bee (1), cat (2)",
                "site-c is the first to say what data mean here: inputs: BGR",
            ]
            await lab.round_open(0)
            await lab.c.queue.stop(RUN_ID)
            await lab.ended()
            assert (await lines(lab))[0] == "3 classes: ape (0), bee (1), cat (2)"

    play(go())


@pytest.mark.parametrize("begun", [False, True])
def test_a_silo_is_taken_back_only_if_it_fits_those_that_enrolled_without_it(
    tmp_path: Path, begun: bool
) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A, meaning=DOGS)
            await lab.view.drop(A, "another list of classes")
            await lab.enroll(B, meaning=CATS)
            if begun:
                await lab.enroll(C, meaning=CATS)
                await lab.round_open(0)
            with pytest.raises(ConfigError, match=r"site-a mean .* dog is no class, cat is wanted"):
                await lab.view.undrop(A)
            assert (await lab.silo(A)).dropped == "another list of classes"
            await lab.enroll(A, meaning=CATS)
            await lab.view.undrop(A)
            assert (await lab.silo(A)).dropped is None
            await lab.round_open(0)
            await refuses(lab, B, DOGS, "dog is no class")
            await lab.enroll(B, meaning=CATS)

    play(go())


def test_the_run_says_its_classes(tmp_path: Path) -> None:
    async def go() -> None:
        names = list(CATS.classes)
        async with life(tmp_path, num_silos=2, classes=names) as lab:
            assert await lines(lab) == ["3 classes: ape (0), bee (1), cat (2)"]
            await refuses(lab, A, NOTHING, "it does not say its classes; the run has ape")
            await refuses(lab, A, DOGS, "cat is wanted")
            await refuses(lab, A, CATS.filled(Meaning(labels=(1, 3))), "look shifted by one")
            await lab.enroll(A, meaning=CATS.filled(Meaning(labels=(1, 1))))
            assert await lab.events("meaning") == []

    play(go())


def test_of_two_that_enrol_at_once_one_is_the_measure(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=3) as lab:
            both = await asyncio.gather(
                lab.enroll(A, meaning=CATS),
                lab.enroll(B, meaning=DOGS),
                return_exceptions=True,
            )
            failed = [error for error in both if isinstance(error, BaseException)]
            assert [type(error) for error in failed] == [MeaningMismatchError]
            assert len(lab.run.roster.enrolled) == 1

    play(go())


def test_what_an_older_version_stored_says_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_silos=2) as lab:
            await lab.enroll(A)
            await lab.enroll(B)
            await lab.round_open(0)
            with lab.store.transaction() as c:
                c.execute(text("UPDATE enrolments SET meaning = NULL"))
        async with life(tmp_path, num_silos=2) as lab:
            assert await lines(lab) == []
            await lab.enroll(A, meaning=CATS)
            await refuses(lab, B, DOGS, "dog is no class")
            with pytest.raises(ConfigError, match="a run needs the same data from start to end"):
                await lab.enroll(A, num_samples=9, meaning=CATS)

    play(go())


# over the wire


RUN = {"name": "r", "task": "digits", "num_rounds": 1, "num_silos": 2}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Coordinator]:
    with coordinator(tmp_path, RUN) as it:
        it.until("/events", lambda es: any(e["kind"] == "waiting" for e in es))
        yield it


@pytest.fixture
def raws(server: Coordinator) -> Iterator[tuple[Raw, Raw]]:
    both = Raw(server), Raw(server)
    for raw, name in zip(both, (A, B), strict=True):
        raw.join(silo_id=name, instance_id=name)
    yield both
    for raw in both:
        raw.close()


def test_what_is_wanted_goes_back_to_the_silo(server: Coordinator, raws: tuple[Raw, Raw]) -> None:
    a, b = raws
    assert a.enroll(meaning_json=CATS.to_json(), num_samples=4).enrolled
    answer = b.enroll(meaning_json=DOGS.to_json(), num_samples=4)
    assert not answer.enrolled
    assert Meaning.from_json(answer.meaning_json) == CATS
    assert server.silo(B)["error_code"] == "meaning-mismatch"
    assert "dog is no class, cat is wanted" in server.silo(B)["error"]
    error = fault(b.enroll, meaning_json="{", num_samples=4)
    assert isinstance(error, ProtocolError)
    assert "what data mean cannot be read" in str(error)
    assert b.enroll(num_samples=4).enrolled, "an older silo says nothing, and may come"


def test_other_classes_are_said_before_the_model_that_follows_from_them(
    server: Coordinator, raws: tuple[Raw, Raw]
) -> None:
    a, b = raws
    a.enroll(meaning_json=CATS.to_json(), num_samples=4)
    more = Meaning(classes=("ape", "bee", "cat", "dog")).to_json()
    answer = b.enroll(meaning_json=more, num_samples=4, layout_digest=b"x" * 16)
    assert (bool(answer.meaning_json), answer.layout_json) == (True, "")


def test_who_looks_at_a_run_takes_no_part(server: Coordinator) -> None:
    raw = Raw(server)
    try:
        look = pb.LookAtRunRequest(silo_id=B)
        answer = raw.stub.LookAtRun(look, timeout=30)
        assert answer.offer.run_id == server.run_ids[0]
        assert Meaning.from_json(answer.meaning_json) == NOTHING
        assert server.get("/silos") == []
        raw.join(silo_id=A)
        raw.enroll(meaning_json=CATS.to_json(), num_samples=4)
        assert Meaning.from_json(raw.stub.LookAtRun(look, timeout=30).meaning_json) == CATS
        assert [s["silo_id"] for s in server.get("/silos")] == [A]
        assert "no silo name" in str(
            fault(lambda: raw.stub.LookAtRun(pb.LookAtRunRequest(silo_id="../x"), timeout=30))
        )
    finally:
        raw.close()
