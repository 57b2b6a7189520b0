"""The silos of a run: who has enrolled, with what data, and whom it begins with."""

import asyncio
from collections.abc import Mapping, Sequence

from domo.errors import ConfigError
from domo.run_config import RunConfig, sort_roster
from domo_server.silos.session import Session
from domo_server.silos.sessions import Sessions
from domo_server.store.rows import Enrolment
from domo_server.store.store import Store

MAX_SAMPLES = 10**12
"""More samples than this at one silo are a mistake, or a lie."""
MAX_STEPS = 2**31 - 1
"""Local steps that a round can ask for."""
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
        self.frozen: list[str] | None = None

    def load(self, enrolled: Mapping[str, Enrolment], frozen: Sequence[str] | None) -> None:
        """Who had enrolled before a restart, and whom the run began with, if it has."""
        self.enrolled |= enrolled
        self.frozen = None if frozen is None else list(frozen)

    @property
    def has_tests(self) -> bool:
        """Whether a silo that has enrolled has test data."""
        return any(e.num_eval_samples for e in self.enrolled.values())

    def freeze(self, silo_ids: Sequence[str]) -> None:
        """The run begins with these."""
        self._config.check_tables(silo_ids)  # wrong ones fail at once
        self.frozen = list(silo_ids)

    def has_place_for(self, session: Session) -> bool:
        """Whether a silo belongs to the run, or may come to."""
        silo_id = session.silo_id
        if session.role == "evaluator" or silo_id in self.enrolled:
            return True
        if silo_id in self._dropped:
            return False
        wanted = self._config.roster if self.frozen is None else self.frozen
        return wanted is None or silo_id in wanted

    async def enroll(self, session: Session, num_samples: int, num_eval_samples: int) -> bool:
        """Take a silo in, or confirm its place; whether it is new, or has other data.

        Raises:
            ConfigError: It must say how many samples it has, or has another number than before.
        """
        silo_id = session.silo_id
        if session.role == "trainer" and not num_samples and self._config.needs_samples:
            raise ConfigError(
                "this run needs to know how many training samples the silo has: pass "
                "samples=len(dataset) to rounds()"
            )
        self._check_samples(silo_id, num_samples, num_eval_samples)
        mine = Enrolment(session.role, num_samples, num_eval_samples)
        old = self.enrolled.get(silo_id)
        if old == mine:
            return False
        if old is not None and self.frozen is not None:
            raise ConfigError(
                f"{silo_id} enrolled in {self._run_id} with {old.num_samples} training and "
                f"{old.num_eval_samples} test samples and now has {num_samples} and "
                f"{num_eval_samples}; a run needs the same data from start to end"
            )
        await asyncio.to_thread(self._store.enroll, self._run_id, silo_id, mine)
        self.enrolled[silo_id] = mine
        return True

    def _check_samples(self, silo_id: str, num_samples: int, num_eval_samples: int) -> None:
        if max(num_samples, num_eval_samples) > MAX_SAMPLES:
            raise ConfigError(
                f"{silo_id} says that it has {num_samples} training and {num_eval_samples} test "
                f"samples; more than {MAX_SAMPLES} cannot be right"
            )
        steps = num_samples and self._config.local_steps_list is None
        if steps and self._config.steps_at(0, silo_id, num_samples) > MAX_STEPS:
            raise ConfigError(
                f"with {num_samples} training samples {silo_id} would make more than {MAX_STEPS} "
                "local steps in a round"
            )

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
        notes = ((s.silo_id, s.declines(self._run_id)) for s in self._sessions.all())
        return [], text + "".join(f"; {silo_id} {note}" for silo_id, note in notes if note)
