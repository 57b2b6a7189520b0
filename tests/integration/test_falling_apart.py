"""A run that falls apart is an event with advice, once; not again after a restart."""

from pathlib import Path

import numpy as np

from domo import metrics
from domo.training.falling_apart import IN_A_ROW
from domo_server.store.measured import table_row
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, opened, play

GOOD, BAD = (0.5, 0.8), (0.3,) * (IN_A_ROW + 1)


async def one_round(lab: Lab, accuracy: float) -> None:
    """A round of all silos, whose model was tested; the watch looks once it is closed."""
    sums = {"accuracy": (100 * accuracy, 100.0), "loss": (100.0, 100.0)}
    lab.store.add_evaluation(RUN_ID, lab.run.state.round_index, SILOS[0], sums)
    await close(lab)


async def close(lab: Lab) -> None:
    r = lab.run.state.round_index
    await lab.send_all(*SILOS)
    await lab.round_open(r + 1)
    lab.watch.look()
    task = lab.watch._falling._task
    assert task is not None
    await task


def test_it_is_said_once_with_what_to_try_and_not_again_after_a_restart(tmp_path: Path) -> None:
    rounds = len(GOOD) + len(BAD) + 2

    async def go() -> None:
        async with opened(tmp_path, 100, num_rounds=rounds, evaluate_every=1) as lab:
            for accuracy in (*GOOD, *BAD[:-2]):
                await one_round(lab, accuracy)
            assert await lab.events("falls-apart") == []
            for accuracy in BAD[-2:]:
                await one_round(lab, accuracy)
            (said,) = await lab.events("falls-apart")
            assert said == (
                "r falls apart: accuracy after round 6, 0.3, is 62 % worse than its best, 0.8 "
                "after round 1. Begin again with local_lr = 0.01, lr_milestones = [0.6, 0.8], "
                "weight_decay = 0.01. The best model so far is that after round 1, which is kept"
            )
        async with life(tmp_path, num_rounds=rounds, evaluate_every=1) as lab:
            lab.watch.look()
            task = lab.watch._falling._task
            assert task is not None
            await task
            assert len(await lab.events("falls-apart")) == 1

    play(go())


def test_a_number_of_tables_is_looked_at_too(tmp_path: Path) -> None:
    async def go() -> None:
        async with opened(tmp_path, 100, num_rounds=20, evaluate_every=1) as lab:
            for right in (50, 90, *(30,) * IN_A_ROW):
                said = np.arange(100) >= right
                table = metrics.confusion(np.zeros(100), predictions=said, classes=2)
                row = table_row(lab.run.state.round_index, SILOS[0], "skill", table)
                lab.store.add_evaluation(RUN_ID, row.model_index, SILOS[0], {}, tables=[row])
                await close(lab)
            (said_,) = await lab.events("falls-apart")
            assert "skill/accuracy after round 6, 0.3, is 67 % worse than its best, 0.9" in said_
            assert said_.endswith("after round 1, which is kept")

    play(go())
