"""What a silo's page shows: its part in the run, its events, and what to do about its error."""

from domo.api.schema import SiloDetail, SiloStatus
from domo.errors import DISK_FULL, OUT_OF_MEMORY, OUTLIER
from domo_server.view.interfaces import ReadModel

NUM_SILO_ROUNDS = 300
"""How many of the last rounds of a run its detail has a silo's part in, and the one that closes."""
NUM_SILO_EVENTS = 50
"""How many of a silo's last events its detail has."""
AGAIN = "It tries again by itself."
LASTS = (
    "It will not pass by itself: ask its operator to mend it and start domo-client again, or drop "
    "the silo."
)
ENDED = "It is offline and tries nothing: its operator starts it again."
_DATA = "Its operator starts it again with --data; `domo-client doctor` checks the folder."
ADVICE = {
    OUT_OF_MEMORY: (
        "End what else uses that GPU, choose a smaller batch_size, or train on a larger device. "
        + AGAIN
    ),
    DISK_FULL: (
        "Its operator makes room on the disk of its state folder. It keeps its update. " + AGAIN
    ),
    OUTLIER: (
        "Its operator looks at the data and the labels; another update of it is taken. Else drop "
        "it, or set norm_factor."
    ),
    "no-data": _DATA,
    "data": _DATA,
    "sample": (
        "The silo's own line has the text, and the place in the task's code; `domo-client doctor` "
        "reads every sample there."
    ),
    "task-not-allowed": (
        "Its operator decides whether that task may run there, and starts it again with --task."
    ),
    "task": "The task's code is missing or wrong there; `domo-client doctor --task` shows where.",
    "layout-mismatch": (
        "Both ends need the same version of the task, and the same number of classes."
    ),
    "meaning-mismatch": (
        "Its operator mends what the text names: `domo-client doctor` compares it beforehand. "
        "Where the wanted list is the wrong one, set classes in the run."
    ),
    "unknown-run": "Both ends need the same version of domo: its operator installs this one's.",
    "divergence": (
        "If other silos have it too, take a lower local_lr; if only this one, its operator looks "
        "at the data."
    ),
    "config": "Its operator mends what the text names and starts it again.",
}
"""What to do about a silo's last error, by its code; docs/error-texts.md has more."""
OTHER = (
    f"{AGAIN} If it does not get better, its operator looks at its log and at `domo-client doctor`."
)


async def silo_detail(read: ReadModel, silo: SiloStatus) -> SiloDetail:
    """The silo with its part in the rounds of the current (or newest) run, and its last events."""
    run = await read.shown_run()
    first = 0 if run is None else run.rounds_done - NUM_SILO_ROUNDS
    return SiloDetail(
        **silo.model_dump(),
        rounds_run_id=None if run is None else run.run_id,
        rounds=[] if run is None else await read.silo_rounds(run.run_id, silo.silo_id, first - 1),
        events=await read.events(limit=NUM_SILO_EVENTS, silo_id=silo.silo_id),
        advice=advice_on(silo.error, silo.error_code, silo.phase == "offline", silo.error_lasts),
    )


def advice_on(
    error: str | None, code: str | None, offline: bool = False, lasts: bool = False
) -> str | None:
    """What to do; None: there is no error. A process that is gone tries nothing by itself."""
    advice = ADVICE.get(code or "", OTHER) if error else None
    if advice and lasts and not offline:
        own = "" if advice == OTHER else advice.replace(AGAIN, "").rstrip() + " "
        return own + LASTS
    return advice.replace(AGAIN, ENDED) if advice and offline else advice
