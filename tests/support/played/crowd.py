"""A federation of many silos that is made up."""

from domo.api.schema import Participant, Resources, RoundRecord, RunDetail, SiloStatus
from tests.support.played.made_up import Federation

ROUNDS = 6
ERROR = "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB"


def crowd(num_silos: int) -> Federation:
    """Silos `silo-00` and so on; the higher its number, the higher a silo's losses and norms."""
    names = [f"silo-{i:02d}" for i in range(num_silos)]
    it = Federation()
    it.round_list = [
        RoundRecord(
            round_index=r,
            state="COMMITTED",
            local_lr=0.05,
            reference_steps=12,
            participants=[
                Participant(
                    silo_id=name,
                    weight=1,
                    num_steps=12,
                    update_norm=10.0 + i,
                    train_loss=2.0 / (1 + r) + i / 100,
                    cosine=0.5 if r else None,
                )
                for i, name in enumerate(names)
            ],
        )
        for r in range(ROUNDS)
    ]
    run = RunDetail(
        run_id="2-crowd",
        name="crowd",
        method="DOMO",
        task="digits",
        state="OPEN",
        num_rounds=10,
        rounds_done=ROUNDS,
        created_at="2026-01-05T09:00:00Z",
        config={"method": "DOMO"},
        roster=names,
        waiting_for=names,
    )
    it.run_list = [run]
    it.silo_list = [
        SiloStatus(
            silo_id=name,
            phase="training",
            run_id=run.run_id,
            round_index=ROUNDS,
            step=3,
            num_steps=12,
            num_samples=360,
            last_seen_s=0.5,
            phase_s=4.0,
            resources=Resources(
                gpu_memory_used_bytes=79 * 10**9,
                gpu_memory_total_bytes=80 * 10**9,
                process_memory_bytes=2 * 10**9,
            ),
        )
        for name in names
    ]
    off, failed = names[-1], names[-2]
    it.silo_list[-1] = SiloStatus(silo_id=off, phase="offline", last_seen_s=840.0)
    it.silo_list[-2] = SiloStatus(
        silo_id=failed,
        phase="failed",
        error=ERROR,
        error_code="out-of-memory",
        last_seen_s=1.0,
    )
    return it
