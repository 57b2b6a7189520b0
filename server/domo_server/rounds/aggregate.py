"""Closing a round: which updates count, the record of them, and what follows from it.

Pure functions of the recorded set; the same set gives the same bytes, however often it is summed.
"""

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from domo.algorithm import (
    Vectors,
    extrapolation,
    fold_weights,
    held_beside,
    inference_scale,
    num_non_finite,
    reference_steps,
    server_block,
)
from domo.errors import DivergenceError
from domo.fold import ReadBlock, blocks, dot, fold, fold_values
from domo.methods import Kernel
from domo.model.integers import choose_integers
from domo.model.layout import BUFFERS, Layout, Section
from domo.run_config import RunConfig, UpdateDtype
from domo_proto.codec import VectorId
from domo_server.rounds.alignment import (
    Alignment,
    Products,
    alignment,
    watch,
)
from domo_server.store.checkpoint import Checkpoint, create_file
from domo_server.store.rows import AcceptedUpdate, Participant, RoundRecord
from domo_server.store.spool import SpooledUpdate, update_path

WORKERS = min(4, os.cpu_count() or 1)
"""Threads that sum."""
AVERAGED = {"mbar": "mean local momentum", "float_buffer": "mean of the float buffers"}
"""What is averaged beside the updates, in words."""
MIN_FOR_OUTLIERS = 3
"""Updates that a round needs before one of them can be far from the others."""


def outliers(norms: Mapping[str, float], factor: float) -> dict[str, str]:
    """Silos whose update is far larger than the others', with the reason in words.

    Args:
        norms: Norm of d_k by silo.
        factor: How many times the median is far.
    """
    if len(norms) < MIN_FOR_OUTLIERS:
        return {}
    middle = median(norms.values())
    return {
        silo_id: f"the norm of its update, {norm:.3g}, is {norm / middle:.3g} times the median"
        for silo_id, norm in norms.items()
        if norm > factor * middle > 0
    }


def make_record(
    config: RunConfig,
    round_index: int,
    sampled: Sequence[str],
    accepted: Mapping[str, AcceptedUpdate],
    samples: Mapping[str, int],
    left_out: Mapping[str, str],
    opened_at: str | None = None,
) -> RoundRecord:
    """What a round is closed with.

    Args:
        config: The run.
        round_index: r.
        sampled: Silos of the round, in roster order; those not accepted are left out.
        accepted: Updates by silo.
        samples: Training samples by silo.
        left_out: Reasons of silos without an update.
        opened_at: When the round was opened.
    """
    participants = [
        Participant(
            silo_id=update.silo_id,
            weight=config.weight_of(update.silo_id, samples[update.silo_id]),
            num_steps=update.num_steps,
            update_norm=update.update_norm,
            train_loss=update.metrics.get("loss"),
            digest=update.digest,
            vectors=update.vectors,
            metrics=update.metrics,
        )
        for update in (accepted[s] for s in sampled if s in accepted)
    ]
    omegas = [p.weight for p in participants]
    losses = [p.train_loss for p in participants if p.train_loss is not None]
    mean = None
    if len(losses) == len(participants):
        mean = sum(w * v for w, v in zip(omegas, losses, strict=True)) / sum(omegas)
    return RoundRecord(
        round_index=round_index,
        participants=participants,
        left_out=dict(left_out),
        local_lr=config.lr_at(round_index),
        reference_steps=reference_steps(config.kernel, omegas, [p.num_steps for p in participants]),
        train_loss=mean,
        opened_at=opened_at,
    )


def sum_round(
    kernel: Kernel,
    state: Checkpoint,
    record: RoundRecord,
    spool: Path,
    folder: Path,
    share: float = 1.0,
    update_dtype: UpdateDtype = "float32",
    layout: Layout | None = None,
) -> tuple[Checkpoint, Alignment]:
    """x_{r+1}, m_{r+1} and what else follows from a recorded set, in a file not yet durable.

    Block by block, on a few threads; no block depends on another, so neither do the bytes on how
    they are shared out. Memory is a few blocks for each thread.

    Args:
        kernel: The method's constants.
        state: x_r, m_r and the rest.
        record: From `make_record`, or from the database.
        spool: Folder of the round's updates.
        folder: The run's checkpoint folder.
        share: The round's part of all silos of the run, by their weights.
        update_dtype: How d_k and m_{k,P} lie there.
        layout: Of the model; needed where it has integer buffers.

    Raises:
        DivergenceError: Something of it is not finite; names the silo with the largest part in it.
        OSError: An update's file is missing, or a full disk.
    """
    members = record.participants
    omegas = [p.weight for p in members]
    steps = [p.num_steps for p in members]
    scale = inference_scale(kernel, record.local_lr, reference_steps(kernel, omegas, steps))
    r, n = state.round_index + 1, state.num_entries("x")
    sizes = {"x": 4 * n, "m": 4 * n} | ({"mbar": 4 * n} if kernel.average else {})
    sizes |= dict.fromkeys(held_beside(kernel), 4 * n)
    sizes |= {s.value: state.file.num_bytes(s.value) for s in BUFFERS}
    out = create_file(folder, r, sizes, state.digests["x"])
    read_x, read_m = state.reader("x"), state.reader("m")
    beside = {name: state.reader(name) for name in held_beside(kernel) if name in state}
    with (
        ExitStack() as failed,
        ExitStack() as open_files,
        ThreadPoolExecutor(WORKERS, "sum") as pool,
    ):
        failed.callback(out.path.unlink, missing_ok=True)
        files: list[SpooledUpdate] = []
        for p in members:
            path = update_path(spool, p.silo_id, p.digest)
            files.append(SpooledUpdate(path, p.vectors, update_dtype))
            open_files.callback(files[-1].close)
        updates = [f.reader(VectorId.UPDATE) for f in files]
        weights = fold_weights(kernel, omegas, steps)
        longer, decay = 1.0, kernel.decay(record.local_lr)
        if kernel.server == "exp":
            longer = extrapolation(kernel, updates, weights, n, scale, pool.map)

        def step(block: tuple[int, int]) -> tuple[int, Products]:
            lo, hi = block
            m_r = read_m(lo, hi)
            readers, products_with = watch(updates, m_r)
            mean = fold(readers, weights, lo, hi)
            products = products_with(mean)
            others = {name: read(lo, hi) for name, read in beside.items()}
            held = Vectors(read_x(lo, hi), m_r, **others)
            made = server_block(kernel, held, mean, scale * longer, share, decay)
            for name, part in made._asdict().items():
                if part is not None:
                    out.write(name, 4 * lo, part)
            return num_non_finite(made.x), products

        done = list(pool.map(step, blocks(n)))
        norms = [p.update_norm for p in members]
        bad = sum(count for count, _ in done)
        if bad:
            raise _diverged("server model", bad, "update", members, norms)

        def average(name: str, vector_id: VectorId) -> None:
            readers, n = [f.reader(vector_id) for f in files], sizes[name] // 4

            def mean(block: tuple[int, int]) -> int:
                if vector_id is VectorId.FLOAT_BUFFERS:
                    part, bad = fold_values(readers, omegas, *block)
                else:
                    part = fold(readers, omegas, *block)
                    bad = num_non_finite(part)
                out.write(name, 4 * block[0], part)
                return bad

            bad = sum(pool.map(mean, blocks(n)))
            if bad:
                raise _diverged(
                    AVERAGED[name], bad, "vector", members, [_norm(r, n) for r in readers]
                )

        if kernel.average:
            average("mbar", VectorId.LOCAL_MOMENTUM)
        if sizes[Section.FLOAT_BUFFER.value]:
            average(Section.FLOAT_BUFFER.value, VectorId.FLOAT_BUFFERS)
        if sizes[Section.INTEGER_BUFFER.value]:
            given = [partial(f.whole, VectorId.INTEGER_BUFFERS) for f in files]
            before = state[Section.INTEGER_BUFFER.value]
            chosen = choose_integers(layout, before, given, steps) if layout else given[0]()
            out.write(Section.INTEGER_BUFFER.value, 0, chosen)
        digests = dict(zip(sizes, pool.map(out.digest, sizes), strict=True))
        failed.pop_all()
    aligned = alignment([products for _, products in done], norms, weights)
    return Checkpoint(r, out, digests, scale, state.digests["x"]), aligned


def _diverged(
    what: str, bad: int, part: str, members: Sequence[Participant], norms: Sequence[float]
) -> DivergenceError:
    """The error that names the silo whose part of it is the largest."""
    norm, silo_id = max((norm, p.silo_id) for p, norm in zip(members, norms, strict=True))
    text = f"the {what} would have {bad} non-finite entries"
    return DivergenceError(
        f"{text}; the largest {part} is that of {silo_id}, of norm {norm:.3g}", bad
    )


def _norm(read: ReadBlock, n: int) -> float:
    """The norm of a vector of n entries."""
    parts = (read(*block).numpy() for block in blocks(n))
    return math.sqrt(sum(dot(part, part) for part in parts))
