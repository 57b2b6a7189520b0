"""An update that no training gives costs its silo the round, and never the run: with two silos."""

from pathlib import Path
from typing import Any

import pytest
import torch

from domo.errors import DivergenceError, ProtocolError
from tests.support.played.lab import SILOS, Lab, life, opened, play

A, B, C, D = SILOS
TWO = [A, B]
LOST = 1.5e38
"""Site-b sends twice as much."""
FAR = 1e6
"""Beside site-a's, and no more than a model can take."""


@pytest.mark.parametrize("norm_check", ["off", "warn", "reject"])
@pytest.mark.parametrize("scale", [LOST, FAR])
def test_the_run_waits_for_its_silo_and_says_so(
    scale: float, norm_check: str, tmp_path: Path
) -> None:
    async def act() -> None:
        async with opened(tmp_path, roster=TWO, norm_check=norm_check) as lab:
            await lab.send_all(A)
            await send_absurd(lab, scale)
            await lab.until(lambda: "site-b failed: " in lab.run.detail)
            assert "no training gives that" in lab.run.detail or "than training" in lab.run.detail
            assert lab.run.state.round_index == 0
            if scale == FAR:  # of the other one it is the rpc that says so
                (text,) = await lab.events("refused")
                assert text.startswith("refused an update of site-b: the norm of its update, ")
            lab.run.participants.try_again(B)  # it asks again, whatever it will send
            await lab.look()
            assert "; site-b had its update refused: the norm of its update, " in lab.run.detail
            with pytest.raises(ProtocolError, match="was refused before: the norm of its update"):
                await lab.send(B, scale)
            await lab.send_all(B)  # mended
            await lab.round_open(1)
            assert await lab.who() == [TWO]

    play(act())


async def send_absurd(lab: Lab, scale: float, name: str = B) -> None:
    """One is refused at the door, the other once the round is to close."""
    if scale == FAR:
        assert await lab.send(name, scale)
        return
    with pytest.raises(DivergenceError, match="more than training gives"):
        await lab.send(name, scale)


@pytest.mark.parametrize("scale", [LOST, FAR])
def test_a_run_that_goes_on_without_it_does(scale: float, tmp_path: Path) -> None:
    async def act() -> None:
        settings: dict[str, Any] = {"on_missing": "proceed", "min_silos": 1, "grace_s": 60}
        async with opened(tmp_path, roster=TWO, num_rounds=5, **settings) as lab:
            begun = lab.clock.now
            for r in range(4):
                await lab.round_open(r)
                await lab.send_all(A)
                await send_absurd(lab, scale)
            await lab.round_open(4)
            assert lab.clock.now == begun, "no grace for whom nothing will come from"
            assert await lab.who() == 4 * [[A]]
            (first, *_) = await lab.rounds()
            assert "training gives" in first.left_out[B]

    play(act())


def test_a_restart_says_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"roster": TWO, "num_rounds": 4}

    async def before() -> None:
        async with opened(tmp_path, **settings) as lab:
            await lab.send_all(A, B)
            await lab.round_open(1)
            await lab.send_all(A)
            assert await lab.send(B, FAR)
            await lab.until(lambda: "site-b failed: the norm" in lab.run.detail)

    async def after() -> None:
        async with life(tmp_path, **settings) as lab:
            await lab.until(lambda: "site-b failed: the norm" in lab.run.detail)
            assert lab.run.state.round_index == 1
            assert sorted(lab.run.participants.accepted) == [A]
            await lab.enroll(B)
            await lab.send_all(B)
            await lab.round_open(2)
            assert await lab.who() == [TWO, TWO]

    play(before())
    play(after())


def test_alone_in_its_round_a_silo_is_measured_by_the_rounds_before(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"participants": [[A], [B], [A]], "num_rounds": 3}

    async def act() -> None:
        async with opened(tmp_path, roster=TWO, **settings) as lab:
            await lab.send_all(A)
            await lab.round_open(1)
            assert await lab.send(B, FAR)
            await lab.until(lambda: "site-b failed: the norm" in lab.run.detail)
            assert not lab.run.state.ended, "it waits for its operator, or its admin"
            await lab.send_all(B)
            await lab.round_open(2)

    play(act())


def test_a_run_whose_silos_all_send_such_updates_has_fallen_apart(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, roster=TWO) as lab:
            for name in TWO:
                await send_absurd(lab, LOST, name)
            result = await lab.ended()
            assert result.state == "FAILED"
            text = "no silo's update is one that training gives; that of site-a: the norm of its"
            assert text in result.detail

    play(act())


def test_all_that_grow_together_go_on(tmp_path: Path) -> None:
    """An honest run that falls apart ends as it does, and has its own event."""

    async def act() -> None:
        async with opened(tmp_path, roster=TWO, num_rounds=3) as lab:
            for scale in (1.0, 1e5, 1e10):
                for name in TWO:
                    assert await lab.send(name, scale)
                r = lab.run.state.round_index
                await lab.until(lambda r=r: lab.run.state.round_index > r or lab.run.state.ended)
            assert (await lab.ended()).state == "FINISHED"
            assert await lab.events("refused") == []

    play(act())


def test_a_copy_of_anothers_update_is_said_and_counts(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, roster=TWO, num_rounds=3) as lab:
            await lab.send_all(A)
            assert await lab.send(B, 0.5)  # twice as much: the same bytes
            await lab.round_open(1)
            assert await lab.send(A, 3.0)
            assert await lab.send(B, 0.5)
            await lab.round_open(2)
            told = "the update of site-b in round {} is that of site-a in round 1, to the byte"
            events = await lab.events("unusual")
            assert [text.partition(":")[0] for text in events] == [told.format(1), told.format(2)]
            assert await lab.who() == [TWO, TWO]

    play(act())


def test_a_restart_says_the_same_of_the_round_after_the_one_that_it_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silos are in the next round while the one before is being committed."""
    settings: dict[str, Any] = {"roster": TWO, "num_rounds": 3}

    async def before() -> None:
        async with opened(tmp_path, **settings) as lab:
            monkeypatch.setattr(lab.store, "commit_round", never)
            await lab.send_all(A, B)
            await lab.round_open(1)
            assert await lab.send(B, FAR)

    async def after() -> None:
        async with life(tmp_path, **settings) as lab:
            await lab.round_open(1)
            assert sorted(lab.run.participants.accepted) == [B]
            await lab.send_all(A)
            await lab.until(lambda: "site-b failed: the norm" in lab.run.detail, "it is refused")
            await lab.send_all(B)
            await lab.round_open(2)

    play(before())
    play(after())


def never(*args: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("on_missing", ["wait", "proceed"])
def test_of_a_model_that_begins_at_0_one_that_sends_nearly_nothing_is_no_measure(
    on_missing: Any, tmp_path: Path
) -> None:
    """It would throw out the honest one, round after round."""
    module = torch.nn.Linear(3, 2)
    for p in module.parameters():
        torch.nn.init.zeros_(p)
    settings: dict[str, Any] = {"module": module, "on_missing": on_missing, "min_silos": 1}

    async def act() -> None:
        async with life(tmp_path, roster=TWO, num_rounds=3, grace_s=60, **settings) as lab:
            for name in TWO:
                await lab.enroll(name)
            for r in range(3):
                await lab.round_open(r)
                assert await lab.send(B, 1e-9)
                await lab.send_all(A)
            assert (await lab.ended()).state == "FINISHED"
            assert await lab.events("refused") == []
            assert await lab.who() == 3 * [TWO]

    play(act())


def test_a_word_about_samples_does_not_throw_the_others_updates_far(tmp_path: Path) -> None:
    """By the samples that it claims the others' updates would count a million times."""
    settings: dict[str, Any] = {"roster": TWO, "local_epochs": 1, "batch_size": 4, "num_rounds": 2}

    async def act() -> None:
        async with life(tmp_path, **settings, on_missing="proceed", min_silos=1, grace_s=60) as lab:
            await lab.enroll(A, num_samples=8)
            await lab.enroll(B, num_samples=8_000_000)
            await lab.round_open(0)
            (told,) = [e for e in await lab.events("unusual") if "training samples" in e]
            assert "site-b says that it has 8000000 training samples, so that it makes" in told
            for r in range(2):
                await lab.round_open(r)
                assert await lab.send(B, 0.0)
                await lab.send_all(A)
            assert (await lab.ended()).state == "FINISHED"
            assert await lab.who() == 2 * [[A]]
            for record in await lab.rounds():
                assert "its 2000000 local steps, by the samples that" in record.left_out[B]

    play(act())


def test_a_silo_with_a_thousand_times_the_data_takes_part(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"roster": TWO, "local_epochs": 1, "batch_size": 4, "num_rounds": 2}

    async def act() -> None:
        async with life(tmp_path, **settings) as lab:
            await lab.enroll(A, num_samples=8)
            await lab.enroll(B, num_samples=8_000)
            for r in range(2):
                await lab.round_open(r)
                assert await lab.send(B, 0.001)
                assert await lab.send(A, 0.05)
            assert (await lab.ended()).state == "FINISHED"
            assert await lab.who() == 2 * [TWO]
            assert await lab.events("refused") == []

    play(act())
