"""What updates are measured by, so that none that no training gives gets into a model."""

import math
from bisect import insort
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from domo.algorithm import counted_steps, fold_weights, inference_scale, reference_steps
from domo.model.extremes import (
    FAR,
    Size,
    Step,
    check_alone,
    far_from_others,
    far_steps,
    low_median,
    measure,
    norm_of,
)
from domo.model.layout import Layout, Section
from domo.run_config import RunConfig
from domo_proto.codec import VectorId
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.rows import AcceptedUpdate, RoundRecord
from domo_server.store.spool import SpooledUpdate

MOST_SENT = 100_000
"""Updates of earlier rounds that one is compared with, the newest."""


def _nothing(lo: int, hi: int) -> torch.Tensor:
    """Reads a vector that has no entries."""
    return torch.empty(hi - lo)


class Yardstick:
    """Of one run.

    What it says follows from what is recorded: the model, the updates of the open round, the norms
    of the rounds before.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig):
        self._config = config
        self._counted = -1
        self._past: list[float] = []
        self._sent: dict[str, tuple[str, int]] = {}
        self._sizes: dict[tuple[int, str], Size] = {}
        self._norm: tuple[int, float] | None = None

    def count(self, record: RoundRecord) -> None:
        """A round is closed with these updates."""
        if record.round_index > self._counted:
            self._counted = record.round_index
            for p in record.participants:
                insort(self._past, p.update_norm)
                if p.update_norm:  # of one that is 0 many are equal
                    self._sent.setdefault(p.digest, (p.silo_id, record.round_index))
            while len(self._sent) > MOST_SENT:
                del self._sent[next(iter(self._sent))]
        # those of the next round stay: after a restart they are measured before this one is counted
        kept = [(key, size) for key, size in list(self._sizes.items()) if key[0] > self._counted]
        self._sizes = dict(kept)

    def measure(
        self,
        layout: Layout,
        model: Checkpoint,
        path: Path,
        update: AcceptedUpdate,
        momentum: float | None = None,
    ) -> None:
        """Measure an update by the model; blocks.

        Args:
            layout: Of the model.
            model: x_r.
            path: The file of the update.
            update: What it is.
            momentum: |m_{k,P}|, where that is known.

        Raises:
            DivergenceError: No training gives that.
        """
        config, n = self._config, layout.num_params
        file = SpooledUpdate(path, update.vectors, config.update_dtype)
        has = {vector_id for vector_id, _ in update.vectors}
        floats = file.reader(VectorId.FLOAT_BUFFERS) if VectorId.FLOAT_BUFFERS in has else _nothing
        integers = torch.empty(0, dtype=torch.uint8)
        try:
            if VectorId.INTEGER_BUFFERS in has:
                integers = file.whole(VectorId.INTEGER_BUFFERS)
            if momentum is None and config.kernel.average:
                momentum = norm_of(file.reader(VectorId.LOCAL_MOMENTUM), n)
            size = measure(
                layout,
                (update.update_norm, momentum or 0.0),
                (floats, model.reader(Section.FLOAT_BUFFER.value)),
                (integers, model[Section.INTEGER_BUFFER.value]),
                update.num_steps,
            )
        finally:
            file.close()
        check_alone(size, self._step(model, update.num_steps))
        self._sizes[model.round_index, update.digest] = size
        norms = [n for s in list(self._sizes.values()) for n in (s.update, s.momentum) if n]
        if norms and max(norms) > FAR * min([*norms, low_median(self._past) or math.inf]):
            self._norm_of_model(model)  # `far` will want it, and may not block

    def far(
        self,
        model: Checkpoint,
        accepted: Mapping[str, AcceptedUpdate],
        samples: Mapping[str, int],
    ) -> dict[str, str]:
        """Silos of a round whose update nothing that is known explains, and why.

        Args:
            model: x_r.
            accepted: The round's updates, by silo; each was measured.
            samples: Training samples of all silos of the run.
        """
        r = model.round_index
        there = {s: u for s, u in accepted.items() if (r, u.digest) in self._sizes}
        sizes = {s: self._sizes[r, update.digest] for s, update in there.items()}
        steps = {s: self._step(model, update.num_steps) for s, update in there.items()}
        found = far_from_others(sizes, steps, low_median(self._past))
        return found or self._far_by_steps(model, accepted, samples)

    def _far_by_steps(
        self,
        model: Checkpoint,
        accepted: Mapping[str, AcceptedUpdate],
        samples: Mapping[str, int],
    ) -> dict[str, str]:
        """Silos whose word for how many samples they have gives the round its length."""
        config, r, updates = self._config, model.round_index, list(accepted.values())
        if not (updates and config.steps_by_samples):
            return {}
        steps = {s: config.steps_at(r, s, num) for s, num in samples.items()}
        if not far_steps(steps, accepted):
            return {}
        omegas = [config.weight_of(u.silo_id, samples[u.silo_id]) for u in updates]
        made = [u.num_steps for u in updates]
        weights = fold_weights(config.kernel, omegas, made)
        mean = sum(w * u.update_norm for w, u in zip(weights, updates, strict=True)) / sum(weights)
        before = config.kernel.mu_s * norm_of(model.reader("m"), model.num_entries("m"))
        scale = inference_scale(
            config.kernel, config.lr_at(r), reference_steps(config.kernel, omegas, made)
        )
        if config.kernel.server == "dyn":
            mean *= 2  # D and, in m, up to D again
        # other servers have m in units of the model
        norm = mean + (before if config.kernel.server == "momentum" else before / scale)
        step = replace(self._step(model, 1), update=scale)
        return far_steps(steps, accepted, norm, step)

    def about_copy(
        self, update: AcceptedUpdate, round_index: int, accepted: Mapping[str, AcceptedUpdate]
    ) -> str | None:
        """That an update is another silo's to the byte, in words; None: it is its own.

        It counts all the same: with equal data, and as many as a step takes, it can be honest.

        Args:
            update: It.
            round_index: Its round.
            accepted: Those that are in, by silo.
        """
        same = (u.silo_id for u in accepted.values() if u.digest == update.digest)
        found = {silo_id: round_index for silo_id in same if silo_id != update.silo_id}
        before, r = self._sent.get(update.digest, (update.silo_id, round_index))
        found |= {before: r} if before != update.silo_id else {}
        if not found or not update.update_norm:
            return None
        silo_id, r = next(iter(found.items()))
        return (
            f"the update of {update.silo_id} in round {round_index + 1} is that of {silo_id} in "
            f"round {r + 1}, to the byte: a copy, or the same data at both"
        )

    def _step(self, model: Checkpoint, num_steps: int) -> Step:
        kernel, h = self._config.kernel, self._config.lr_at(model.round_index)
        begins = h * kernel.lr_scale / (1 - kernel.mu_l)
        scale = inference_scale(kernel, h, counted_steps(kernel, num_steps))
        return Step(scale, begins, model.num_entries("x"), lambda: self._norm_of_model(model))

    def _norm_of_model(self, model: Checkpoint) -> float:
        if self._norm is None or self._norm[0] != model.round_index:
            norm = norm_of(model.reader("x"), model.num_entries("x"))
            self._norm = model.round_index, norm
        return self._norm[1]
