"""K silos on one machine: the run that a federation must equal bit for bit.

The local round, the fold and the server round are those of the silos and the coordinator; only the
wire is missing. One module serves all silos in turn, or one in each of several processes
(`domo.simulating`): a local round begins by loading every vector that a silo holds. `participants`
repeats a run that went on without some silos.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from domo.algorithm import Vectors, inference_scale, num_non_finite, reference_steps, server_round
from domo.batched.choose import choose
from domo.batched.how import EXACT, How
from domo.batched.together import Together
from domo.errors import ConfigError, DivergenceError, TaskError
from domo.fold import ReadBlock, average, average_values
from domo.meaning.compare import check_all
from domo.metrics.numbers import in_most, notes_on, numbers_of, shared_numbers
from domo.metrics.selection import Jury
from domo.model.flat import FlatModel
from domo.model.integers import choose_integers
from domo.model.layout import BUFFERS, Layout, Section
from domo.run_config import RunConfig, sort_roster
from domo.simulated import SimulationResult
from domo.simulating.state import Held, ModelRecord, RoundRecord, ServerState
from domo.simulating.visit import Broadcast, SimulatedSilo, gather
from domo.simulating.visits import Visits
from domo.tasks.base import Task
from domo.training.batches import configure_torch
from domo.training.initial import build_model, initial_of
from domo.training.looking.ready import look, look_of
from domo.training.round_data import LocalResult
from domo.training.task_errors import task_errors
from domo.update_format import decode

log = logging.getLogger(__name__)


def simulate(
    config: RunConfig,
    task: Task,
    silos: Sequence[SimulatedSilo],
    *,
    device: str | torch.device = "cpu",
    on_model: Callable[[ModelRecord], None] | None = None,
    participants: Sequence[Sequence[str]] | None = None,
    on_round: Callable[[Held, SimulationResult], None] | None = None,
    begin: Held | None = None,
    processes: int | None = 1,
    tell: Callable[[str], None] = log.info,
    how: How = EXACT,
) -> SimulationResult:
    """Run all rounds of a run, or those that are left of it.

    Args:
        config: The run.
        task: What is trained.
        silos: All silos, in any order.
        device: Where silos compute; between rounds vectors are on the CPU, as at a coordinator.
        on_model: Called with the record of each server model, once it is tested.
        participants: The silos of each round, as a coordinator recorded them, in place of the
            configuration's; the run ends after as many rounds.
        on_round: Called once a round is closed, with what it takes to go on from there and with
            the result so far.
        begin: What a run held that was interrupted; it goes on from there.
        processes: Among how many processes the silos are shared out, which gives the same bytes;
            None: as many as pay.
        tell: Told in one line where the silos are computed, and why.
        how: Exact, or with the layers of all silos in one call.

    Raises:
        ConfigError: The silos do not fit the run, or cannot be sent to other processes.
        MeaningMismatchError: Data of one silo mean something else than those of another.
        DivergenceError: Non-finite numbers; names the round and the silo.
    """
    by_id = {s.silo_id: s for s in silos}
    if len(by_id) < len(silos):
        raise ConfigError("two silos have the same name")
    silos = [by_id[i] for i in sort_roster(list(by_id))]
    samples = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    roster = list(samples)
    if not roster or (config.num_silos or len(roster)) != len(roster):
        raise ConfigError(f"the run has {config.num_silos} silos, {len(roster)} have training data")
    if set(config.roster or roster) != set(roster):
        raise ConfigError(f"the silos {', '.join(roster)} are not the run's roster")
    if participants is None:
        config.check_tables(roster)
    check_all(config.classes, ((s.silo_id, s.meaning) for s in silos))
    configure_torch(config.threads, torch.device(device))

    layout, vectors = initial_of(config, task)
    with task_errors(f"the model cannot be put on {device}"):
        flat = FlatModel(build_model(task, config.seed).to(device), config.private)
    layout.check_same(flat.layout)
    flat.load(Section.FROZEN, vectors[Section.FROZEN])
    x = vectors[Section.TRAINABLE]
    mbar = torch.zeros_like(x) if config.kernel.average else None
    buffers = {s: vectors[s] for s in BUFFERS}
    said_before: dict[str, None] = {}
    for silo in silos:
        try:
            first = look_of(config, silo.silo_id, samples.get(silo.silo_id, 0))
            said_before |= dict.fromkeys(look(task, flat, silo.train, silo.evaluation, first))
        except TaskError as error:
            raise TaskError(f"{silo.silo_id}: {error}") from error
    for note in said_before:
        log.warning("%s", note)
    state = ServerState(x, torch.zeros_like(x), buffers, mbar)
    fixed = {s: vectors[s] for s in (Section.FROZEN, Section.PRIVATE)}
    begin = begin or Held(layout.digest, state, (), {}, None)
    if begin.layout_digest != layout.digest:
        raise ConfigError("the model is not that of the run that was interrupted")
    num_rounds = config.num_rounds if participants is None else len(participants)
    left = num_rounds - len(begin.history)
    if how.mode == "batched" and (processes or 1) > 1:
        raise ConfigError("batched silos are in one process: leave the processes or the mode out")
    together = choose(how, config, task, flat, silos, begin, tell)
    notes = frozenset(said_before)
    where: AbstractContextManager[Visits | Together] = (
        nullcontext(together)
        if together
        else Visits(config, task, flat, silos, layout, fixed[Section.FROZEN], processes, left, tell)
    )
    with where as visits:
        return _run_rounds(
            config, layout, fixed, visits, samples, begin, participants, notes, on_model, on_round
        )


def _run_rounds(
    config: RunConfig,
    layout: Layout,
    fixed: dict[Section, Tensor],
    visits: Visits | Together,
    samples: Mapping[str, int],
    begin: Held,
    participants: Sequence[Sequence[str]] | None,
    said_before: Collection[str],
    on_model: Callable[[ModelRecord], None] | None,
    on_round: Callable[[Held, SimulationResult], None] | None,
) -> SimulationResult:
    """All rounds that are left; arguments are those of `simulate`, and what it has made of them."""
    roster = list(samples)
    state, best, history = begin.state, begin.best, list(begin.history)
    kept = dict(begin.kept)
    jury = Jury(config.primary_metric, config.better_of, config.stop_after, config.stop_min_delta)
    stopped = None
    for old in history:
        if config.evaluates_at(old.model_index):
            known = in_most(list(old.silos.values())) or None
            jury.judge(old.model_index, old.metrics, len(old.silos), known)
    num_rounds = config.num_rounds if participants is None else len(participants)
    for r in range(len(history), num_rounds + 1):  # the last pass only tests x_R
        if r == num_rounds:
            present = []
        elif participants is None:
            present = config.participants_at(r, roster)
        else:
            present = [s for s in roster if s in participants[r]]
        steps = {s: config.steps_at(r, s, samples[s]) for s in present}
        scale = state.made_by.inference_scale if state.made_by else None
        sent = Broadcast(r, state.x, state.x_prev, state.mbar, state.c, state.buffers, scale)
        back, following, measured = gather(visits.visit(sent, steps, kept), r)
        numbers = numbers_of(measured.values())
        own = {silo_id: numbers_of([told]) for silo_id, told in measured.items()}
        said = (
            {}
            if any(h.metrics for h in history)
            else {note: None for told in measured.values() for note in notes_on(told).values()}
        )
        notes = tuple(said)
        history.append(ModelRecord(r, numbers, state.made_by, own, notes))
        for note in notes:
            if note not in said_before:
                log.warning(note)
        if config.evaluates_at(r):
            jury.judge(r, numbers, len(measured), shared_numbers(measured.values()))
            chosen = jury.choice.best
            best = state if chosen is not None and chosen.model_index == r else best
        if on_model:
            on_model(history[-1])
        stopped = jury.why_enough if participants is None and r < num_rounds else None
        if stopped is not None:
            break
        if present:
            omegas = [config.weight_of(s, samples[s]) for s in present]
            share = config.share_of(present, samples)
            state = _close_round(config, layout, state, r, back, omegas, share)
            kept |= following  # committed with these silos; the others keep theirs
            if on_round:
                held = Held(layout.digest, state, tuple(history), dict(kept), best, visits.mode)
                so_far = _result(visits, layout, fixed, state, list(history), jury, best)
                on_round(held, so_far)
    return _result(visits, layout, fixed, state, history, jury, best, stopped)


def _result(
    visits: Visits | Together,
    layout: Layout,
    fixed: dict[Section, Tensor],
    state: ServerState,
    history: list[ModelRecord],
    jury: Jury,
    best: ServerState | None,
    stopped: str | None = None,
) -> SimulationResult:
    found = jury.choice.best
    return SimulationResult(
        layout,
        state.x,
        state.m,
        state.mbar,
        state.buffers | fixed,
        history,
        state.x_prev,
        primary_metric=jury.metric,
        best=best,
        best_index=None if found is None else found.model_index,
        best_value=None if found is None else found.value,
        stopped=stopped,
        mode=visits.mode,
        v=state.v,
        c=state.c,
    )


def _close_round(
    config: RunConfig,
    layout: Layout,
    state: ServerState,
    r: int,
    back: Mapping[str, LocalResult],
    omegas: Sequence[float],
    share: float,
) -> ServerState:
    """The coordinator's part of a round."""
    kernel, h, results = config.kernel, config.lr_at(r), list(back.values())
    steps = [b.num_steps for b in results]
    updates = [_reader(b.update) for b in results]
    held = Vectors(state.x, state.m, state.v, state.c)
    x, m, v, c = server_round(kernel, held, updates, omegas, steps, h, share)
    momenta = [_reader(b.momentum) for b in results if b.momentum is not None]
    mbar = average(momenta, omegas, x.numel()) if kernel.average else None
    floats = [_reader(b.float_buffers) for b in results]
    n = results[0].float_buffers.numel()
    float_buffers, spoilt = average_values(floats, omegas, n)
    for what, bad in (
        ("mean local momentum", 0 if mbar is None else num_non_finite(mbar)),
        ("mean of the float buffers", spoilt),
    ):
        if bad:
            raise DivergenceError(f"the {what} would have {bad} non-finite entries", bad)
    integers = [partial(getattr, b, "integer_buffers") for b in results]
    before = state.buffers[Section.INTEGER_BUFFER]
    buffers = {
        Section.FLOAT_BUFFER: float_buffers,
        Section.INTEGER_BUFFER: choose_integers(layout, before, integers, steps),
    }
    logged, total = [b.metrics for b in results], sum(omegas)
    means = {
        name: sum(w * own[name] for w, own in zip(omegas, logged, strict=True)) / total
        for name in logged[0]
        if all(name in own for own in logged)
    }
    scale = inference_scale(kernel, h, reference_steps(kernel, omegas, steps))
    loss, own = means["loss"], tuple(map(dict, logged))
    made_by = RoundRecord(tuple(back), tuple(steps), h, loss, scale, means, tuple(omegas), own)
    return ServerState(x, m, buffers, mbar, state.x, made_by, v, c)


def _reader(vector: Tensor) -> ReadBlock:
    return lambda lo, hi: decode(vector[lo:hi])
