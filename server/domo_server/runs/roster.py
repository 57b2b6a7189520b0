"""The silos of a run: who has enrolled, with what data, and whom it begins with."""

import asyncio
from collections.abc import Container, Mapping, Sequence

from domo.errors import ConfigError, MeaningMismatchError
from domo.meaning.compare import differences, mismatch
from domo.meaning.value import NOTHING, Meaning
from domo.names import MOST_TEXT, alike, all_alike
from domo.ops.words import counted
from domo.run_config import RunConfig, sort_roster
from domo_server.events import kinds
from domo_server.events.kinds import EventKind
from domo_server.rounds.agreement import Agreement
from domo_server.rounds.shares import about_shares, check_samples
from domo_server.silos.session import Session
from domo_server.silos.sessions import Sessions
from domo_server.store.rows import Enrolment
from domo_server.store.store import Store

SHOWN_STRANGERS = 3
NOBODY = "every silo of this round is left out; take one back (undrop), or stop the run"


class Roster:
    """Used from the event loop only.

    Args:
        run_id: The run.
        config: Its configuration.
        store: Where enrolments are recorded.
        sessions: Who is connected.
        dropped: Silos that an admin has left out, and why.
    """

    def __init__(
        self,
        run_id: str,
        config: RunConfig,
        store: Store,
        sessions: Sessions,
        dropped: Mapping[str, str],
    ):
        self._run_id, self._config, self._store = run_id, config, store
        self._sessions, self._dropped = sessions, dropped
        self.enrolled: dict[str, Enrolment] = {}
        self.agreement = Agreement(config, self.enrolled, dropped)
        self.frozen: list[str] | None = None
        self._enrolling = asyncio.Lock()
        self._told_of: set[str] = set()

    def load(self, enrolled: Mapping[str, Enrolment], frozen: Sequence[str] | None) -> None:
        """Who had enrolled before a restart, and whom the run began with, if it has."""
        self.enrolled |= enrolled
        self.agreement.load()
        self.frozen = None if frozen is None else list(frozen)

    @property
    def has_tests(self) -> bool:
        """Whether a silo that has enrolled has test data."""
        return any(e.num_eval_samples for e in self.enrolled.values())

    @property
    def samples(self) -> dict[str, int]:
        """Training samples of the silos that the run has begun with, as they say."""
        return {s: self.enrolled[s].num_samples for s in self.frozen or () if s in self.enrolled}

    def at_start(self) -> list[tuple[EventKind, str]]:
        """What its admin should know as the run begins with its silos."""
        config, told = self._config, []
        if config.evaluate_every and not self.has_tests:
            text = f"{config.title}: no silo has test data; its models get no test numbers"
            told.append((kinds.UNTESTED, text))
        if (note := about_shares(config, self.samples)) is not None:
            told.append((kinds.UNUSUAL, note))
        return told

    def freeze(self, silo_ids: Sequence[str]) -> None:
        """The run begins with these."""
        self._config.check_tables(silo_ids)  # wrong ones fail at once
        self.frozen = list(silo_ids)

    def has_place_for(self, session: Session) -> bool:
        """Whether a silo belongs to the run, or may come to."""
        return self.has_place(session.silo_id, session.role)

    def has_place(self, silo_id: str, role: str) -> bool:
        """The same, of one that is not there."""
        mine = self.enrolled.get(silo_id)
        if silo_id in self._dropped:  # it may mend its data meanwhile; nothing else is sent to it
            return role == "trainer" and mine is not None and mine.role == role
        if mine is not None and (mine.role == role or self.frozen is not None):
            return mine.role == role
        if (role == "evaluator") or silo_id in self._config.evaluators:
            return role == "evaluator" and silo_id in self._config.evaluators
        wanted = self._config.roster if self.frozen is None else self.frozen
        return wanted is None or silo_id in wanted

    def absent(self) -> list[str]:
        """Silos that the run names, or has begun with, and that are not connected."""
        if self.frozen is not None:
            away = [s for s in self.frozen if self._sessions.is_absent(s)]
        else:
            named = self._config.roster or self._config.required_silos
            away = [s for s in named if not self._sessions.is_online(s)]
        return [s for s in away if s not in self._dropped]

    def strangers(self) -> dict[str, list[str]]:
        """Silos that are connected without a place in the run, while others are away.

        Returns:
            Of each the names of those for which it may be meant.
        """
        absent = self.absent()
        if not absent:
            return {}
        there = [s for s in self._sessions.all() if self._sessions.is_online(s.silo_id)]
        strange = [s for s in there if s.silo_id not in self._dropped and not self.has_place_for(s)]
        return all_alike([s.silo_id for s in strange], absent)

    def about_strangers(self) -> list[str]:
        """The first few of them in words, those with a likely name first."""
        found = sorted(self.strangers().items(), key=lambda pair: not pair[1])
        told = [stranger_text(*pair) for pair in found[:SHOWN_STRANGERS]]
        more = len(found) - len(told)
        return [*told, f"and {more} more"] if more > 0 else told

    def new_strangers(self) -> dict[str, str]:
        """Those with a likely name that were not told of before, in words; a few in a run."""
        told = {}
        for silo_id, meant in self.strangers().items():
            room = len(self._told_of) < SHOWN_STRANGERS
            if meant and silo_id not in self._told_of and room:
                self._told_of.add(silo_id)
                told[silo_id] = stranger_text(silo_id, meant)
        return told

    def no_place(
        self,
        silo_id: str,
        loaded: bool,
        ended: bool,
        declined: Container[str] = (),
        role: str = "trainer",
    ) -> str:
        """Why a silo is not taken in, and what to do.

        It names no other silo, but those that are away and whose name is nearly this one's.
        """
        if not loaded or ended:
            why = "it has ended" if ended else "it is being loaded; ask again"
        elif self._run_id in declined:
            why = "it has declined it; start the silo again to be asked again"
        elif silo_id in self._dropped:
            why = "the admin has left it out (domo undrop takes it back)"
        else:
            why = self._why_not_as(silo_id, role)
        meant = alike(silo_id, self.absent()) if loaded and not ended else []
        if meant and silo_id not in self._dropped:
            why += (
                f". It waits for {' and '.join(meant)}: did you mean --name {meant[0]}, with the "
                "state folder of that silo?"
            )
        return f"{silo_id} has no place in run {self._run_id}: {why}"

    def _why_not_as(self, silo_id: str, role: str) -> str:
        mine, named = self.enrolled.get(silo_id), silo_id in self._config.evaluators
        if mine is not None and mine.role != role:
            return f"it is in it as {mine.role}: start it with --role {mine.role}"
        if role == "evaluator":
            return "it is not one of the run's evaluators; the admin names them in the run"
        if named:
            return "the run names it as evaluator: start it with --role evaluator"
        if self._config.roster is not None:
            begun = "it waits for the next run"
            mend = "the admin, or another --name, can change that"
            return f"the run's roster names others; {mend if self.frozen is None else begun}"
        first = counted(0 if self.frozen is None else len(self.frozen), "silo")
        return f"the run has begun with the first {first} that enrolled; it waits for the next run"

    def wanted_of(self, silo_id: str) -> Meaning:
        """What a silo's data are to mean."""
        return self.agreement.wanted_of(silo_id, begun=self.frozen is not None)

    def compare(self, silo_id: str, own: Meaning) -> None:
        """See that a silo's data mean what is wanted.

        Raises:
            MeaningMismatchError: They do not.
        """
        how = {"listed": self._config.classes is not None, "same_code": self._config.same_code}
        if found := differences(own, self.wanted_of(silo_id), **how):
            raise mismatch(found, f"the data of {silo_id}", MOST_TEXT)

    def compare_again(self, silo_id: str) -> None:
        """See that a silo that is left out, and so no measure, fits those that came without it.

        Raises:
            ConfigError: Its data mean something else.
        """
        try:
            if silo_id in self.enrolled:
                self.compare(silo_id, self.enrolled[silo_id].meaning)
        except MeaningMismatchError as error:
            raise ConfigError(
                f"{error}. It may enrol again while it is left out, with data that fit; or it is "
                f"taken back once {self._run_id} has ended"
            ) from error

    async def enroll(self, silo_id: str, mine: Enrolment) -> list[tuple[EventKind, str]]:
        """Take a silo in, or confirm its place; what is to be told, if it is new or has other data.

        Raises:
            MeaningMismatchError: Its data mean something else than is wanted.
            ConfigError: It must say how many samples it has, or has another number than before.
        """
        if mine.role == "trainer" and not mine.num_samples and self._config.needs_samples:
            raise ConfigError(
                "this run needs to know how many training samples the silo has: pass "
                "samples=len(dataset) to rounds()"
            )
        check_samples(self._config, silo_id, mine.num_samples, mine.num_eval_samples)
        async with self._enrolling:  # of two that are the first at once, one is
            self.compare(silo_id, mine.meaning)
            old = self.enrolled.get(silo_id)
            if old == mine:
                return []
            other = old is not None and _sizes(old) != _sizes(mine)
            if old is not None and other and self.frozen is not None:
                raise ConfigError(
                    f"{silo_id} enrolled in {self._run_id} with {old.num_samples} training and "
                    f"{old.num_eval_samples} test samples and now has {mine.num_samples} and "
                    f"{mine.num_eval_samples}; a run needs the same data from start to end"
                )
            await asyncio.to_thread(self._store.enroll, self._run_id, silo_id, mine)
            self.enrolled[silo_id] = mine
            notes = self.agreement.hear(silo_id)
        said = f"{silo_id} enrolled with {mine.num_samples} samples"
        if old is not None and other:
            said += f", before with {old.num_samples}"
        told = [(kinds.ENROLLED, said)]
        told += [(kinds.MEANING, note) for note in notes]
        before = NOTHING if old is None else old.meaning
        notes = self.agreement.other_code(silo_id, before)
        return told + [(kinds.CODE_DIFFERS, note) for note in notes]

    def choose(self) -> tuple[list[str], str]:
        """The silos to begin with, once everybody is there; else who is missing, in words.

        A silo that an admin has left out is neither counted nor waited for.
        """
        config = self._config
        trainers = [
            s for s, e in self.enrolled.items() if e.role == "trainer" and s not in self._dropped
        ]
        missing = [
            s
            for s in config.roster or config.required_silos
            if s not in trainers and s not in self._dropped
        ]
        needed = [s for s in config.required_silos if s in trainers]
        first = [*needed, *(s for s in trainers if s not in needed)][: config.expected_silos]
        short = config.expected_silos - len(first)
        if missing:
            text = f"waiting for {', '.join(missing)} to enrol"
        elif config.roster and not trainers:
            text = NOBODY
        elif config.roster:
            return sort_roster(config.roster), ""
        elif short:
            text = f"waiting for {short} more of {config.expected_silos} silos to enrol"
        else:
            return sort_roster(first), ""
        text += "".join(f"; {note}" for note in self.about_strangers())
        silos = [s.silo_id for s in self._sessions.all()]
        notes = ((s, self._sessions.why_not(s, self._run_id)) for s in silos)
        return [], text + "".join(f"; {silo_id} {note}" for silo_id, note in notes if note)


def stranger_text(silo_id: str, meant: Sequence[str]) -> str:
    """That a silo is connected for which a run has no place, in words."""
    likely = f": is it {' or '.join(meant)} by another name?" if meant else ""
    return f"{silo_id} is connected and has no place in this run{likely}"


def _sizes(place: Enrolment) -> tuple[int, int]:
    return place.num_samples, place.num_eval_samples
