"""The agent behind `domo-client`: takes the runs that its tasks allow, and trains them.

It uses the loop API like anybody else. Long-lived: it waits for further runs until stopped.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from domo.errors import (
    DataError,
    DomoError,
    IncompleteRoundError,
    TaskError,
    code_of,
)
from domo.outside.faults import outside
from domo.outside.text import saying
from domo.training.local_round import LocalRound
from domo.training.task_errors import may_pass, task_errors, told
from domo.training.task_round import run_task_round
from domo_client.leftovers import process_as_it_was
from domo_client.loop.outcome import Outcome
from domo_client.loop.silo import Silo
from domo_client.not_yet import NotYet, Pauses
from domo_client.observe.messages import Ui
from domo_client.operator_signals import users_code
from domo_client.rpc.control import LostRunError, MissedRunError
from domo_client.rpc.offer import Offer, RefusedRunError
from domo_client.work import (
    CANNOT,
    AgentOptions,
    MissingDataError,
    Work,
    layout_of,
    look_at,
    prepare,
)

log = logging.getLogger(__name__)


def run_agent(
    silo: Silo,
    options: AgentOptions,
    ui: Ui,
    *,
    once: bool = False,
    after_run: Callable[[], object] = lambda: None,
) -> Outcome | None:
    """Take part in runs until interrupted.

    Args:
        silo: Joined.
        options: The operator's.
        ui: Told what happens.
        once: Return after the first run that this silo took part in, or declined, or that ended
            before this silo was ready for it. Data that are not there are a reason to decline.
        after_run: Called when nothing of a run, or of a look at one, is held any more.

    Returns:
        How the last run ended; None if it was declined.
    """
    pauses = Pauses()
    ui.waiting()
    while True:
        try:
            offer = silo.next_run(pauses.run_id if once else "")
        except RefusedRunError as error:
            ui.declined(error.run_id, str(error))
            if once:
                return None
            continue
        except MissedRunError as error:
            ui.lost(str(error))
            return None
        if once and pauses.run_id not in ("", offer.run_id):
            ui.lost(f"run {pauses.run_id} went on without this silo, which was not ready for it")
            return None
        began, outcome, is_lost = time.monotonic(), None, False
        if offer.run_id != pauses.run_id:
            ui.offered(offer)
        try:
            outcome = _serve(silo, offer, options, ui, once)
        except LostRunError as error:
            ui.lost(str(error))
            is_lost = True
        after_run()
        if isinstance(outcome, NotYet):
            again_s = pauses.after(offer.run_id, time.monotonic() - began)
            ui.not_ready(offer, outcome.here, again_s)
            if silo.not_yet(offer, outcome.elsewhere, outcome.code, again_s):
                continue
            ui.lost(str(MissedRunError(offer.run_id)))
            outcome = None
        if once and not is_lost:
            return outcome
        ui.waiting()


def _serve(
    silo: Silo, offer: Offer, options: AgentOptions, ui: Ui, once: bool
) -> Outcome | NotYet | None:
    """Take part in a run, or decline it; its model and data go with this call."""
    try:
        with process_as_it_was():
            return _take_part(silo, offer, options, ui)
    except LostRunError:
        raise
    except RefusedRunError as error:
        ui.declined(offer.run_id, str(error))  # the coordinator knows
    except MissingDataError as error:
        silo.decline(offer, outside(error), code_of(error))
        ui.needs_data(offer, str(error), error.is_public)
    except DomoError as error:
        if error.retryable:
            raise
        if may_pass(error) and not (once and isinstance(error, DataError)):
            return NotYet.of(error)
        silo.decline(offer, outside(error), code_of(error))
        ui.declined(offer.run_id, told(error))
    return None


@contextmanager
def _no_network() -> Iterator[None]:
    """What a task raises in the words of domo's network is the task's: it may pass, no more."""
    try:
        yield
    except DomoError as error:
        if not error.retryable:
            raise
        raise saying(TaskError(f"{CANNOT}: {error}"), f"{CANNOT}: {outside(error)}") from error


def _take_part(silo: Silo, offer: Offer, options: AgentOptions, ui: Ui) -> Outcome:
    with _no_network(), task_errors(CANNOT), users_code():
        silo.prepares(offer)
        policy = silo.policy.policy
        if policy.looks_at_model:  # before the data are opened
            silo.check_model(offer, layout_of(offer))
        work = prepare(offer, options, policy)
        samples = len(work.train) if work.train else 0
        tests = len(work.evaluation) if work.evaluation else 0
        for note in look_at(work, offer, silo.connection.session.silo_id, options):
            log.warning("%s: %s", offer.task, note)
    ui.prepared(offer, samples, tests)
    rounds = silo.rounds(
        work.model, samples=samples, eval_samples=tests, meaning=work.meaning, offer=offer
    )
    for rnd in rounds:
        _one_round(silo, work, rnd, options, ui)
    assert silo.outcome is not None
    ui.ended(silo.outcome)
    return silo.outcome


def _one_round(silo: Silo, work: Work, rnd: LocalRound, options: AgentOptions, ui: Ui) -> None:
    """A round; what its task raises is said, and the round comes again."""
    ui.round_begins(rnd)
    try:
        with users_code():
            data = (work.train, work.evaluation)
            result = run_task_round(work.task, rnd, *data, options.autocast)
        if result is None and rnd.num_steps and not rnd.abandoned:
            raise IncompleteRoundError("no training data for a round of training", 0, rnd.num_steps)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        silo.fail(error)
        ui.failed(rnd.round_index, error, silo.faults)
    else:
        ui.round_done(rnd)
