"""The numbers that a run takes from its silos: whose, of which model, and what is said of them."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from domo.errors import ProtocolError
from domo.metrics.numbers import only_shares
from domo.metrics.table import Measured
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Changes
from domo_server.results.heard import Heard, keep
from domo_server.results.numbers import heavy_of
from domo_server.results.weights import why_too_heavy
from domo_server.rounds.times import TimesOfRound
from domo_server.store.rows import Enrolment
from domo_server.store.store import Store

log = logging.getLogger(__name__)

MOST_ITEMS = 1e10
"""That a silo counts for each of its test samples: more than an image or a volume has values."""
MOST_SAID = 1000
"""Faults of metrics that are said in a run."""


class Evaluations:
    """Of one run. Used from the event loop only.

    Args:
        run_id: The run.
        store: Where they are recorded.
        changes: Told what has come.
        events: What happens, for people.
        enrolled: Who has enrolled, by silo.
        dropped: Silos that an admin has left out.
        newest: The index of the newest model.
        times: Where the time of the open round goes.

    Attributes:
        heard: The metrics so far.
        reported: Silos that are through with testing a model, by its index.
        model_digests: Of the models, by index.
        revision: Grows with each test.
    """

    def __init__(
        self,
        run_id: str,
        store: Store,
        changes: Changes,
        events: EventLog,
        enrolled: Mapping[str, Enrolment],
        dropped: Collection[str],
        newest: Callable[[], int],
        times: Callable[[], TimesOfRound],
    ):
        self._run_id, self._store, self._changes, self._events = run_id, store, changes, events
        self._enrolled, self._newest, self._times = enrolled, newest, times
        self.heard = Heard(dropped)
        self.reported: dict[int, set[str]] = {}
        self.model_digests: dict[int, str] = {}
        self.revision = 0
        self._said: set[tuple[str, str]] = set()

    async def add(
        self,
        silo_id: str,
        model_index: int,
        measured: Measured,
        tested: str = "",
    ) -> str:
        """Record a silo's numbers of x_{model_index}, unless it tested one that was discarded.

        Args:
            silo_id: The silo.
            model_index: Which model.
            measured: Sums and tables over its test data.
            tested: Digest of the model; older silos say none.

        Returns:
            What its operator should know: of numbers that were left out.

        Raises:
            ProtocolError: There is no such model yet; the silo has no test samples, counts what
                they cannot have, or gives its metrics other names each time.
        """
        if not 0 <= model_index <= self._newest():
            raise ProtocolError(f"there is no model x_{model_index} yet")
        if not self.has_model(model_index, tested):
            log.info("numbers of %s are of a model x_%d that is gone", silo_id, model_index)
            return ""
        place = self._enrolled.get(silo_id)
        num_tests = 0 if place is None else place.num_eval_samples
        check_counts(silo_id, measured, num_tests)
        measured, told = only_shares(measured)
        for name, why in told.items():
            self.say_once(silo_id, name, f"{silo_id}: {why}; it is left out")
        self.heard.check(silo_id, measured)
        apart = self.heard.apart(silo_id, measured)
        for name, (why, others) in apart.items():
            told[name] = f"metric {name!r}: {why}"
            among = f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}"
            text = f"metric {name!r} of {silo_id}: {why}; it is left out (others: {among})"
            self.say_once(silo_id, name, text)
        every = measured
        measured = {name: one for name, one in measured.items() if name not in apart}
        unlike = self.heard.unlike(silo_id, measured)
        for why in self.heard.add(silo_id, every, num_tests, unlike, apart):
            self._events.say(kinds.METRIC, why, self._run_id, silo_id)
        numbers = (model_index, silo_id, measured, tested or None, unlike)
        await asyncio.to_thread(keep, self._store, self._run_id, *numbers)
        self.reported.setdefault(model_index, set()).add(silo_id)
        if model_index == self._newest():
            self._times().tested(silo_id)
        self.revision += 1
        self._changes.moved()  # numbers are in
        await self._say_what_is_too_heavy(model_index)
        return "; ".join(told.values())

    async def _say_what_is_too_heavy(self, model_index: int) -> None:
        """Say of silos that count more than they enrolled with, once of each metric."""
        nums, heavy = await asyncio.to_thread(heavy_of, self._store, self._run_id, model_index)
        for (silo_id, metric), factor in heavy.items():
            samples = self._enrolled[silo_id].num_eval_samples
            if factor and samples:
                why = why_too_heavy(silo_id, metric, nums[silo_id][metric], samples, factor)
                self.say_once(silo_id, metric, why)

    def say_once(self, silo_id: str, metric: str, why: str) -> None:
        """Say what is wrong with a silo's metric, unless that was said."""
        if (silo_id, metric) not in self._said and len(self._said) < MOST_SAID:
            self._said.add((silo_id, metric))
            self._events.say(kinds.METRIC, why, self._run_id, silo_id)

    def has_model(self, model_index: int, tested: str) -> bool:
        """Whether a model that a silo has tested may be the run's; one that was discarded is not.

        Args:
            model_index: i of x_i.
            tested: Digest of the model; older silos say none.
        """
        known = self.model_digests.get(model_index, "")
        return not (known and tested and known != tested)

    def note_tested(self, silo_id: str, model_index: int, tested: str = "") -> None:
        """A silo says that it is through with testing a model, with or without numbers."""
        if model_index != self._newest() or silo_id not in self._enrolled:
            return
        if not self.has_model(model_index, tested):
            return
        reported = self.reported.setdefault(model_index, set())
        if silo_id not in reported:
            reported.add(silo_id)
            self._changes.moved()  # a model is tested


def check_counts(silo_id: str, measured: Measured, num_tests: int) -> None:
    """See that a silo counts what its test samples can have.

    Raises:
        ProtocolError: It has enrolled with none, or counts more than any has.
    """
    if not num_tests:
        raise ProtocolError(f"{silo_id} has enrolled without test samples: it has no numbers")
    for name, one in measured.items():
        if one.num > MOST_ITEMS * num_tests:
            raise ProtocolError(
                f"metric {name!r} of {silo_id} counts {one.num:.4g}, and it has enrolled with "
                f"{num_tests} test samples"
            )
