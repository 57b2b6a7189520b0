"""The digest of a run is the same whether it is kept up or read at once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from domo.api.round_times import RoundTimes
from domo_server.store.database import open_database
from domo_server.store.rows import RoundRecord, RunRow
from domo_server.store.store import Store
from domo_server.view.run_stats import StatsOfRuns

SILOS = ("site-a", "site-b")


def test_a_digest_that_is_kept_up_is_that_of_all_rows(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    live = SimpleNamespace(revision=0, reported={})
    row = RunRow("r", 1, "r", {}, "", "OPEN", "", "then")

    def test(model: int, *silos: str) -> None:
        for silo in silos:
            store.add_evaluation("r", model, silo, {"accuracy": (model + len(silo), 10)})
            live.reported.setdefault(model, set()).add(silo)

    def close(r: int, left_out: dict[str, str]) -> None:
        store.begin_close("r", RoundRecord(r, [], left_out, local_lr=0.1, reference_steps=1))

    async def go() -> None:
        kept = StatsOfRuns(store)

        async def same() -> None:
            live.revision += 1
            assert await kept.of(row, live) == await StatsOfRuns(store).of(row, live)

        await same()
        for r in range(8):
            late = "site-a" if r == 5 else None  # it tests x_5 four rounds later
            test(r, *(s for s in SILOS if s != late))
            await same()
            close(r, {"site-b": "not connected"} if r == 6 else {})
            await same()
            record = replace(store.round_at("r", r), duration_s=10.0 + r)
            store.commit_round("r", record, {"rounds_done": r + 1})
            await same()
            assert (await kept.of(row, live)).complete == (r < 6)
        test(5, "site-a")
        await same()
        digest = await kept.of(row, live)
        assert [p.num_silos for p in digest.points] == 8 * [2]
        assert digest.recent_s == 13.5  # the median of rounds 0 to 7
        assert digest.training_s == 108.0
        ended = replace(row, state="FINISHED")
        assert await kept.of(ended, None) == digest

    asyncio.run(go())
    store.close()


def test_neither_a_stall_nor_a_restart_is_in_the_length_of_a_round(tmp_path: Path) -> None:
    """Three of ten rounds took an hour: one was stalled, one was cut, one was slow."""
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    row = RunRow("r", 1, "r", {}, "", "OPEN", "", "then")
    odd = {
        4: (3600.0, RoundTimes(span_s=3600.0, stalled_s=3590.0)),
        6: (3600.0, RoundTimes(span_s=7200.0, paused_s=3600.0)),
        8: (1.0, RoundTimes(span_s=1.0, interrupted=True)),
    }
    for r in range(10):
        store.begin_close("r", RoundRecord(r, [], {}, local_lr=0.1, reference_steps=1))
        duration_s, times = odd.get(r, (10.0, RoundTimes(span_s=10.0)))
        record = replace(store.round_at("r", r), duration_s=duration_s, times=times)
        store.commit_round("r", record, {"rounds_done": r + 1})
    stats = asyncio.run(StatsOfRuns(store).of(row, None))
    assert stats.recent_s == 10.0
    assert stats.training_s == 7 * 10.0 + 3600.0 + 3600.0 + 1.0
    store.close()
