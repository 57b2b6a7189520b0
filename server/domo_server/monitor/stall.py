"""Why a run makes no progress, as far as the coordinator can see; in words."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from domo_server.monitor.activity import PATIENCE_S, Signs
from domo_server.rounds.state import Phase
from domo_server.runs.roster import NOBODY
from domo_server.runs.run import Run
from domo_server.silos.sessions import NOT_SEEN

BROKEN_S = 3.0
"""A silo whose connection broke may be back at once; after this it holds its run up."""
COMING_S = 20.0
"""Silos look for a coordinator that was restarted at least this often."""
ENROL_S = 60.0
"""How long a run may wait for the next silo to enrol."""
BYTES_PER_S = 20e6
"""A disk that is slower than this when a round is closed hangs."""
ENDING_VECTORS = 4
"""What the end of a run reads and writes, in vectors of the size of an update."""
SHOWN = 3
COME = "Start domo-client there again, or drop it: the run goes on without it"
MEND = "Its page says what to do. Or drop it: the run goes on without it"
ASK = "Ask its operator to mend it and start domo-client again, or drop it"
LACKS = "Start it with what it lacks, or drop it"
WHERE = "Its terminal says where in its code. Mend what it waits for, or drop it"
AGAIN = "Once it has what it lacks it comes by itself. Or drop it"
LOOK = "Its log may say why. Start it again, or drop it"


class Held(NamedTuple):
    """What is known of a silo that holds a run up.

    Attributes:
        why: In words, the same for all silos to which the same has happened.
        help: What to do.
        last: What it did last.
    """

    why: str
    help: str
    last: str = ""


class Why(NamedTuple):
    """Why a run makes no progress: in words, and by whom."""

    text: str
    silos: Mapping[str, Held] = {}


class Stall:
    """Looks at one run again and again.

    Args:
        run: The run.
        signs: How its silos move.
        floor_s: Shortest rest that is ever too long, seconds.
        up_s: Since when the coordinator is up, in seconds of the run's clock.
    """

    def __init__(self, run: Run, signs: Signs, floor_s: float, up_s: float):
        self._run, self._signs, self._floor_s, self._up_s = run, signs, floor_s, up_s
        self._work: object = None
        self._work_since = run.clock()

    def why(self) -> Why | None:
        """Why the run is stalled now; None: it is not."""
        run, phase = self._run, self._run.state.phase
        if run.state.ended or run.stop_text is not None:
            return None
        if run.stuck is not None:
            return Why(run.stuck)
        if not run.ready:
            late = self._works_for("loading") > PATIENCE_S
            return (
                Why("loading the run takes unusually long; the log may say why") if late else None
            )
        if phase is Phase.WAITING:
            return self._enrolling()
        if phase is Phase.CLOSING:
            return self._closing()
        if phase is Phase.EVALUATING:
            return self._testing()
        if phase is Phase.OPEN and not run.pause_wanted:
            return self._collecting()
        return None

    def _works_for(self, work: object) -> float:
        """How long one and the same work is going on, seconds."""
        now = self._run.clock()
        if work != self._work:
            self._work, self._work_since = work, now
        return now - self._work_since

    def _enrolling(self) -> Why | None:
        """Somebody who is needed has said no, or nobody comes any more."""
        run = self._run
        wanted = [s for s in run.config.roster or run.config.required_silos if s not in run.dropped]
        missing = [s for s in wanted if s not in run.roster.enrolled]
        refused = {
            s: Held(why, LACKS)
            for s in missing
            if (why := run.participants.why_not(s)) is not None and self._lacks(s) == LACKS
        }
        if refused:
            told = f"the run cannot start: {_told(refused)}. Start them with what they lack"
            return Why(told, refused)
        prepare = self._preparing()
        if stuck := {s: self._rests(s) for s in prepare if self._stuck(s)}:
            return Why(f"the run cannot start: {_told(stuck)}", stuck)
        coming = self._works_for(("enrolling", len(run.roster.enrolled), len(missing)))
        if prepare and len(run.roster.enrolled) + len(prepare) >= run.config.expected_silos:
            return None  # they load, and move
        missing = [s for s in missing if s not in prepare]
        if coming > ENROL_S:
            notes = {s: run.participants.why_not(s) for s in missing}
            told = f"{run.detail}, and none has come for {ENROL_S:.0f} s"
            if not missing or None in notes.values():
                told += ". Start their domo-client"
            late = Held("has not come", COME)
            return Why(told, {s: Held(note, AGAIN) if note else late for s, note in notes.items()})
        return None

    def _preparing(self) -> list[str]:
        """Who is there and makes itself ready for the run."""
        run = self._run
        return [
            s.silo_id
            for s in run.sessions.all()
            if s.run_id == run.run_id
            and s.phase == "idle"
            and s.now is not None
            and s.silo_id not in run.roster.enrolled
            and run.sessions.away(s.silo_id) is None
        ]

    def _closing(self) -> Why | None:
        r, sampled = self._run.state.round_index, self._run.participants.sampled
        return self._writing(("closing", r), f"closing round {r + 1}", len(sampled) + 3)

    def _writing(self, work: object, what: str, num_vectors: int) -> Why | None:
        """The disk takes longer than it should."""
        num_bytes = sum(part.num_bytes for part in self._run.receiver.parts)
        limit = max(self._floor_s, num_bytes * num_vectors / BYTES_PER_S)
        if self._works_for(work) <= limit:
            return None
        return Why(
            f"{what} takes unusually long: the disk of {self._run.folder} hangs, or this machine "
            "is overloaded"
        )

    def _testing(self) -> Why | None:
        """Nobody who is to test the last model gets on with it; or it is written for too long."""
        run = self._run
        untested = run.untested()
        if not untested:
            return self._writing("ending", "writing the final model", ENDING_VECTORS)
        at, why = run.clock(), dict[str, Held]()
        for silo_id in untested:
            gone = self._gone(silo_id)
            if gone is None and not self._still(silo_id, at):
                return None
            why[silo_id] = gone or self._rests(silo_id)
        told = (
            f"the final model is not tested. {_told(why)}. The run ends without their numbers "
            f"{run.config.evaluation_deadline_s:g} s after its last round"
        )
        return Why(told, why)

    def _collecting(self) -> Why | None:
        run, r, now = self._run, self._run.state.round_index + 1, self._run.participants
        sampled, missing, disk = now.sampled, now.missing, run.receiver.disk
        if not sampled:
            return Why(NOBODY)
        if disk is not None:
            return Why(f"updates cannot be kept: {disk}; it goes on by itself once they can")
        proceeds = now.policy.on_missing == "proceed"
        if not missing or (proceeds and now.quorum_at is not None):
            return None  # it closes by itself
        gone = {s: why for s in missing if (why := self._gone(s)) is not None}
        if proceeds:
            needed = min(now.policy.min_silos or len(sampled), len(sampled))
            short = len(sampled) - len(gone) < needed
            blocks = (
                gone
                if short
                else {s: why for s, why in gone.items() if s in now.policy.required_silos}
            )
        else:
            blocks = gone
        if blocks:
            told = (
                f"round {r} cannot close without {_names(list(blocks))}. {_told(blocks)}. Start "
                "what has ended again, mend what fails, or leave silos out: domo drop SILO"
            )
            told += "".join(f". {note}" for note in run.roster.about_strangers())
            return Why(told, blocks)
        at = run.clock()
        there = [s for s in missing if s not in gone]
        if all(self._still(s, at) for s in there):
            doing = {s: self._rests(s) for s in there}
            told = f"nothing moves in round {r}. {_told(doing)}. Their logs may say why"
            return Why(told, doing)
        return None

    def _gone(self, silo_id: str) -> Held | None:
        """Why nothing comes of a silo as things are, and what it did last."""
        run = self._run
        away = run.sessions.away(silo_id, BROKEN_S)
        if silo_id in run.participants.failed:
            told, lasts = run.participants.how_failed(silo_id), run.participants.will_last(silo_id)
            help_ = COME if away else ASK if lasts else MEND
            again = "it will not pass by itself" if lasts else "it tries again by itself"
            return Held(f"{told} ({away or again})", help_)
        if (why := run.participants.why_not(silo_id)) is not None:
            return Held(why, self._lacks(silo_id))
        if away is None or (away == NOT_SEEN and run.clock() - self._up_s < COMING_S):
            return None
        return Held(away, COME, "" if away == NOT_SEEN else self._doing(silo_id))

    def _still(self, silo_id: str, at: float) -> bool:
        """Whether a silo that is there does not move on, as it says itself or as it is seen."""
        return bool(self._stuck(silo_id)) or self._signs.rests(silo_id, at)

    def _stuck(self, silo_id: str) -> str:
        """What a silo is at for too long, as it says; empty: nothing."""
        session = self._run.sessions.of(silo_id)
        now = None if session is None else session.now
        return now.words if now is not None and now.over_s else ""

    def _lacks(self, silo_id: str) -> str:
        """What to do about a silo that takes no part as things are."""
        coming = self._run.sessions.not_ready(silo_id, self._run.run_id)
        return LACKS if coming is None else AGAIN

    def _rests(self, silo_id: str) -> Held:
        if stuck := self._stuck(silo_id):
            return Held(stuck, WHERE)
        return Held(f"{self._doing(silo_id)}, and no further", LOOK)

    def _doing(self, silo_id: str) -> str:
        session = self._run.sessions.of(silo_id)
        return "not connected" if session is None else session.doing


def grouped(silos: Mapping[str, Held]) -> list[tuple[Held, list[str]]]:
    """The same has happened to these: each reason with its silos, those of most silos first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for silo_id, held in silos.items():
        groups.setdefault((held.why, held.help), []).append(silo_id)
    found = [
        (silos[ids[0]] if len(ids) == 1 else Held(why, help_), ids)
        for (why, help_), ids in groups.items()
    ]
    return sorted(found, key=lambda group: -len(group[1]))


def _told(silos: Mapping[str, Held]) -> str:
    """What is known of the silos; of the first few reasons."""
    groups = grouped(silos)
    told = []
    for held, ids in groups[:SHOWN]:
        last = f" (last: {held.last})" if held.last else ""
        told.append(f"{_names(ids)}: {held.why}{last}")
    more = sum(len(ids) for _, ids in groups[SHOWN:])
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _names(silo_ids: Sequence[str]) -> str:
    """The first few names, and how many more."""
    more = len(silo_ids) - SHOWN
    return ", ".join(silo_ids[:SHOWN]) + (f" and {more} more" if more > 0 else "")
