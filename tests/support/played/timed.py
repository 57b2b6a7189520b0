"""A made-up run of which it is known where its time went."""

from domo.api.round_times import RoundTimes, SiloTimes
from domo.api.schema import Participant, RoundRecord, RunDetail, SiloStatus
from tests.support.played.made_up import Federation

RUN_ID = "1-timed"
NAMES = ["site-a", "site-b", "site-c", "site-d"]
SLOW = 2.5
"""How many times longer site-c trains than the others."""


def silo_times(span_s: float, start: float, *parts: float, **more: object) -> SiloTimes:
    """Fetch, test, train, upload after a start; the rest of the round it waits."""
    fetch_s, test_s, train_s, upload_s = parts
    worked = sum(parts)
    return SiloTimes(
        fetch_at_s=start,
        fetch_s=fetch_s,
        test_s=test_s,
        train_s=train_s,
        upload_s=upload_s,
        wait_s=round(span_s - worked, 3),
        **more,  # type: ignore[arg-type]
    )


def timed_round(r: int, names: list[str] = NAMES) -> RoundRecord:
    """Each round is a little longer than the one before; site-c is the slowest."""
    train = 8.0 + 0.01 * r
    silos = {}
    span_s = 0.05 + 0.6 + 1.2 + SLOW * train + 0.9 + 0.4
    for i, name in enumerate(names):
        own = (SLOW if name == "site-c" else 1 + 0.07 * i) * train
        tries = {"upload": 2} if name == "site-b" and r % 5 == 0 else {}
        silos[name] = silo_times(span_s, 0.05, 0.6, 1.2, own, 0.9, tries=tries)
    silos["judge"] = SiloTimes(
        fetch_at_s=0.05, fetch_s=0.6, test_s=2.0, wait_s=round(span_s - 2.6, 3)
    )
    return RoundRecord(
        round_index=r,
        state="COMMITTED",
        opened_at="2026-01-05T09:00:00Z",
        closed_at="2026-01-05T09:00:20Z",
        duration_s=span_s,
        local_lr=0.05,
        reference_steps=12,
        participants=[
            Participant(silo_id=n, weight=1, num_steps=12, update_norm=1.0, train_loss=2 / (1 + r))
            for n in names
        ],
        closed_by="silo",
        closed_by_silo="site-c",
        times=RoundTimes(
            span_s=span_s, collect_s=span_s - 0.4, fold_s=0.35, commit_s=1.1, silos=silos
        ),
    )


def timed(num_rounds: int) -> Federation:
    """A finished run; in its round 3 site-d was left out, and round 4 saw a restart."""
    it = Federation()
    it.round_list = [timed_round(r) for r in range(num_rounds)]
    third, fourth = it.round_list[2], it.round_list[3]
    assert third.times is not None
    assert fourth.times is not None
    cut = SiloTimes(fetch_at_s=0.05, fetch_s=0.6, train_s=20.0, wait_s=0.05, unfinished="train")
    silos = {**third.times.silos, "site-d": cut}
    it.round_list[2] = third.model_copy(
        update={
            "participants": third.participants[:3],
            "left_out": {"site-d": "no update in time"},
            "closed_by": "deadline",
            "closed_by_silo": None,
            "times": third.times.model_copy(update={"silos": silos}),
        }
    )
    known = {
        "site-a": SiloTimes(upload_s=0.9, wait_s=3.0),
        "site-b": SiloTimes(wait_s=fourth.times.span_s),
        "site-c": SiloTimes(upload_s=0.9, wait_s=0.4),
        "site-d": SiloTimes(),
    }
    stopped = {"silos": known, "interrupted": True, "commit_s": None}
    it.round_list[3] = fourth.model_copy(update={"times": fourth.times.model_copy(update=stopped)})
    run = RunDetail(
        run_id=RUN_ID,
        name="timed",
        method="DOMO",
        task="digits",
        state="FINISHED",
        num_rounds=num_rounds,
        rounds_done=num_rounds,
        created_at="2026-01-05T09:00:00Z",
        started_at="2026-01-05T09:00:00Z",
        finished_at="2026-01-05T11:00:00Z",
        waiting_s=600.0,
        training_s=6000.0,
        config={"method": "DOMO"},
        roster=NAMES,
    )
    it.run_list = [run]
    all_silos = [*NAMES, "judge"]
    it.silo_list = [SiloStatus(silo_id=n, phase="idle", last_seen_s=1.0) for n in all_silos]
    return it
