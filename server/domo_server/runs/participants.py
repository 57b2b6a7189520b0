"""Who is in the open round: sampled, accepted, failed, refused, left out; and why, in words."""

from collections.abc import Callable, Collection, Mapping, Sequence

from domo.api.round_times import ClosedBy
from domo.run_config import RunConfig
from domo_server.rounds.aggregate import outliers
from domo_server.rounds.state import Decision, Policy, decide, has_quorum
from domo_server.rounds.times import TimesOfRound
from domo_server.rounds.yardstick import Yardstick
from domo_server.silos.sessions import Sessions
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.rows import AcceptedUpdate
from domo_server.store.store import now_text


def failed_text(why: str, times: int, lasts: bool, where: str = "") -> str:
    """A fault and how often it came running: `failed 3 times with the same fault: WHY`."""
    count = f" {times} times" if times > 1 else ""
    return f"failed{count}{' with the same fault' if lasts else ''}{where}: {why}"


def failed_event(silo_id: str, round_index: int, why: str, times: int, lasts: bool) -> str:
    """A fault of a silo as an event: that it came again is said once it lasts."""
    told = failed_text(why, times if lasts else 1, lasts, f" in round {round_index + 1}")
    return f"{silo_id} {told}" + (". It will not pass by itself" if lasts else "")


class Participants:
    """The silos of the open round. Used from the event loop only.

    Args:
        run_id: The run.
        config: Its configuration.
        sessions: Who is connected.
        dropped: Silos that an admin has left out, and why.
        clock: Monotonic seconds.

    Attributes:
        times: Where the time of the open round goes.
        closed_by: What closes it, and whose update or leaving did.
        yardstick: What updates are measured by.
    """

    def __init__(
        self,
        run_id: str,
        config: RunConfig,
        sessions: Sessions,
        dropped: Mapping[str, str],
        clock: Callable[[], float],
    ):
        self._run_id, self._config, self._sessions = run_id, config, sessions
        self._dropped, self._clock = dropped, clock
        self.times = TimesOfRound(clock)
        self.policy = Policy(
            config.on_missing,
            config.min_silos,
            config.required_silos,
            config.round_deadline_s,
            config.grace_s,
        )
        self.yardstick = Yardstick(config)
        self.begin([])

    def begin(self, chosen: Sequence[str]) -> None:
        """Begin a round of these silos, in roster order."""
        self._chosen = list(chosen)
        self.sampled = [s for s in chosen if s not in self._dropped]
        self._absent = {s for s in self.sampled if self._sessions.is_absent(s)}
        self.accepted: dict[str, AcceptedUpdate] = {}
        self.failed: dict[str, str] = {}
        self._tries: dict[str, tuple[int, bool]] = {}
        self._troubles: dict[str, str] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        self._absurd: set[str] = set()
        self.quorum_at: float | None = None
        self.opened_at, self.opened_text = self._clock(), now_text()
        self.times = TimesOfRound(self._clock, self.sampled, self.times.working_s)
        self.closed_by: tuple[ClosedBy | None, str | None] = None, None
        self._last: tuple[ClosedBy | None, str | None] = None, None

    def keep_to(self, recorded: Sequence[str]) -> None:
        """The round is closed with these silos, as was recorded before a restart."""
        self.sampled = list(recorded)

    # how far it is

    @property
    def missing(self) -> list[str]:
        """Silos without an update."""
        return [s for s in self.sampled if s not in self.accepted]

    def awaits(self, silo_id: str) -> bool:
        """Whether the round has no update of this silo of its own."""
        return silo_id in self.sampled and silo_id not in self.accepted

    def decide(self) -> Decision:
        """What to do with the round now."""
        now = self._clock()
        quorum_for = None if self.quorum_at is None else now - self.quorum_at
        lost = [s for s in self.sampled if self.is_lost(s)]
        found = decide(
            self.policy, self.sampled, self.accepted, lost, now - self.opened_at, quorum_for
        )
        self.closed_by = (found.cause, None) if found.missing else self._last
        return found

    def is_lost(self, silo_id: str) -> bool:
        """Whether nothing will come from a silo as things are: its grace would be wasted."""
        away = silo_id in self._absent and self._sessions.is_absent(silo_id)
        return away or silo_id in self.failed or self.why_not(silo_id) is not None

    def hold(self, since: float) -> None:
        """The round was held since then: deadline and grace did not run."""
        self.times.resumed()
        self._last = self._last if self.missing else ("admin", None)
        away = self._clock() - since
        self.opened_at += away
        if self.quorum_at is not None:
            self.quorum_at = min(self.quorum_at, since) + away

    # what comes, or does not

    def take(self, update: AcceptedUpdate, before_restart: bool = False) -> None:
        """Count an accepted update; of one that was before a restart nobody knows when."""
        silo_id = update.silo_id
        self.accepted[silo_id] = update
        self.failed.pop(silo_id, None)
        self._refused.pop(silo_id, None)
        self._absurd.discard(silo_id)
        self._last = (None, None) if before_restart else ("silo", silo_id)
        self.times.accepted(silo_id, before_restart)
        self._reckon()

    def fail(self, silo_id: str, why: str, times: int = 0, lasts: bool = False) -> bool:
        """Nothing comes from a silo until it tries again; the reason is kept for the record.

        Args:
            silo_id: The silo.
            why: Its fault.
            times: How often it came running; 0: not counted.
            lasts: Whether it will not pass by itself.

        Returns:
            Whether that is news: another fault, or one that is now seen to last.
        """
        before = self._tries.get(silo_id)
        self._tries[silo_id] = times, lasts
        self.failed[silo_id] = self._troubles[silo_id] = why
        self.times.failed(silo_id)
        return times <= 1 or before is None or before[1] != lasts

    def will_last(self, silo_id: str) -> bool:
        """Whether the fault of a silo that has failed will not pass by itself."""
        return self._tries[silo_id][1]

    def how_failed(self, silo_id: str) -> str:
        """What has failed at a silo, and how often running."""
        return failed_text(self.failed[silo_id], *self._tries[silo_id])

    def try_again(self, silo_id: str) -> None:
        """A silo that may have failed has its assignment."""
        self.failed.pop(silo_id, None)

    def leave_out(self, silo_id: str) -> None:
        """A silo was dropped: it counts no more in this round."""
        if silo_id in self.sampled:
            self._last = ("admin", silo_id) if silo_id in self.missing else self._last
            self.sampled.remove(silo_id)
            self.accepted.pop(silo_id, None)
            self._reckon()

    def take_back(self, silo_id: str) -> None:
        """A silo was taken back: from the next round on, or now where nobody is left."""
        if not self.sampled and silo_id in self._chosen:
            self.sampled = [silo_id]

    def _reckon(self) -> None:
        """Note when the round gets its quorum, or loses it with a silo that is taken out."""
        if not has_quorum(self.policy, self.sampled, self.accepted):
            self.quorum_at = None
        elif self.quorum_at is None:
            self.quorum_at = self._clock()

    # updates far above the others'

    def outliers(self) -> dict[str, str]:
        """Silos whose update is far above the others', and why."""
        norms = {s: update.update_norm for s, update in self.accepted.items()}
        return outliers(norms, self._config.norm_factor)

    def refuse_outliers(self, model: Checkpoint, samples: Mapping[str, int]) -> dict[str, str]:
        """Take out updates that no training gives, or that are far above the others'; and why.

        The latter where the run says so.

        Args:
            model: x_r.
            samples: Training samples of all silos of the run.
        """
        samples = {s: num for s, num in samples.items() if s not in self._dropped}
        far = self.yardstick.far(model, self.accepted, samples)
        absurd = set(far)
        if not far and self._config.norm_check == "reject":
            far = self.outliers()
        for silo_id, why in far.items():
            self.refuse(self.accepted.pop(silo_id), why, silo_id in absurd)
        self._reckon()
        return far

    def refuse(self, update: AcceptedUpdate, why: str, absurd: bool = False) -> None:
        """An update does not count: its silo has failed, until it sends another one.

        Args:
            update: It.
            why: In words.
            absurd: No training gives that.
        """
        self._refused[update.silo_id] = (update.digest, why)
        self._absurd |= {update.silo_id} if absurd else set()
        self.fail(update.silo_id, why)

    def why_hopeless(self, roster: Collection[str]) -> str | None:
        """Why nothing can come of the round: all silos' updates are absurd; None: it can.

        Of one silo that is not to be believed while others may be, the run says that it waits.

        Args:
            roster: All silos of the run.
        """
        everybody = {s for s in roster if s not in self._dropped}
        if self.accepted or not everybody or not everybody <= self._absurd:
            return None
        first = next(s for s in self.sampled if s in self._absurd)
        return (
            f"no silo's update is one that training gives; that of {first}: "
            + (self._refused[first][1])
        )

    def why_refused(self, silo_id: str, upload_digest: str) -> str | None:
        """Why this very update was refused in this round; None: it was not."""
        refused, why = self._refused.get(silo_id, ("", ""))
        return why if refused == upload_digest else None

    # in words

    def why_not(self, silo_id: str) -> str | None:
        """`declined: REASON` or `not ready: REASON`, of a silo that takes no part as things are."""
        return self._sessions.why_not(silo_id, self._run_id)

    def reasons_missing(self) -> dict[str, str]:
        """Why each silo of the round without an update has none."""
        reasons = {}
        for silo_id in self._chosen:
            if silo_id in self.accepted:
                continue
            if silo_id in self._dropped:
                reasons[silo_id] = f"dropped by the admin: {self._dropped[silo_id]}"
            elif silo_id not in self.sampled:
                reasons[silo_id] = "taken back after this round had begun"
            else:
                online = self._sessions.is_online(silo_id)
                late = "no update in time" if online else "not connected"
                known = self._troubles.get(silo_id) or self.why_not(silo_id)
                reasons[silo_id] = known or late
        return reasons

    def notes_on(self, missing: Sequence[str]) -> list[str]:
        """Why a round waits for these silos, where it is not plain work."""
        notes = []
        for silo_id in missing:
            if silo_id in self.failed:
                notes.append(f"{silo_id} {self.how_failed(silo_id)}")
            elif silo_id in self._refused:
                notes.append(f"{silo_id} had its update refused: {self._refused[silo_id][1]}")
            elif why := self.why_not(silo_id):
                notes.append(f"{silo_id} {why}")
            elif self._sessions.away(silo_id) is not None:
                notes.append(f"{silo_id} {self._sessions.away_text(silo_id)}")
        return notes
