"""What a coordinator asks for in a round, held against the configuration that was agreed on.

A header could ask for one step of one sample where the configuration says 500 of 32, and an update
of one step gives its sample away. So a silo works out for itself what the run has it do, and takes
no part in a run whose coordinator asks for something else.
"""

import math

from domo.algorithm import counted_steps
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo_client.rpc.offer import ContradictionError, Offer
from domo_proto.assignment import Action, Announced, Assignment
from domo_proto.codec import VectorId, model_digest

MOST_WAYS_BACK = 3
"""A coordinator's state is restored from a backup now and then; each time it has the silo make
rounds again, with other models. Those of training and those of tests count apart."""
ENDS = ("FINISHED", "FAILED", "STOPPED")
BESIDE = (VectorId.X_PREV, VectorId.MEAN_MOMENTUM, VectorId.CONTROL)
"""Vectors that come, or do not come, as the method says."""
SCALE_TOLERANCE = 1e-9
"""Relative; the mean of equal numbers of steps may round."""


class Agreed:
    """What a run has a silo do. Every assignment passes by here before a byte of it is used.

    Args:
        offer: The run.
        silo_id: The silo.
        role: `trainer` or `evaluator`.
        samples: Size of its training data.
        tests: Size of its test data.
    """

    def __init__(self, offer: Offer, silo_id: str, role: str, samples: int, tests: int):
        self._offer, self._silo_id, self._role = offer, silo_id, role
        self._samples, self._tests = samples, tests
        self._trained, self._tested = _Way(), _Way()
        self._frozen: bytes | None = None

    def check(self, told: Assignment[Announced]) -> None:
        """See that an assignment is one of this run.

        Raises:
            ContradictionError: It is not; the run is refused.
        """
        run_id, most = self._offer.run_id, self._offer.config.num_rounds
        self._need(told.run_id == run_id, f"names the run {told.run_id!r}", run_id)
        if told.action is Action.ASK_AGAIN:
            return
        r = told.round_index
        if told.action is Action.END:
            self._need(told.outcome in ENDS, f"ends the run as {told.outcome!r}", "no such end")
            self._need(r <= most, f"counts {r} rounds", f"num_rounds = {most}")
            return
        if told.num_rounds != most:
            self._refuse(f"asks for {counted(told.num_rounds, 'round')} in all", str(most))
        if told.evaluate or told.action is Action.EVALUATE:
            self._check_test(r)
        if told.action is Action.TRAIN:
            self._check_training(told)
        self._check_vectors(told)
        if told.action is Action.TRAIN and (n := self._trained.back_at(r, _given(told))):
            self._refuse(f"goes back to round {r + 1} for the {n}th time", "rounds come once")
        tests = told.evaluate or told.action is Action.EVALUATE
        if tests and (n := self._tested.back_at(r, model_digest(told.digests))):
            self._refuse(f"wants another model {r} tested for the {n}th time", "one is")

    def _check_test(self, r: int) -> None:
        config = self._offer.config
        if r > config.num_rounds or not config.evaluates_at(r):
            plan = f"evaluate_every = {config.evaluate_every}, num_rounds = {config.num_rounds}"
            self._refuse(f"wants model {r} tested", plan)
        if not self._tests:
            self._refuse(f"wants model {r} tested", "nothing: this silo said it has no test data")

    def _check_training(self, told: Assignment[Announced]) -> None:
        config, r = self._offer.config, told.round_index
        if r >= config.num_rounds:
            self._refuse(f"asks for round {r + 1}", f"num_rounds = {config.num_rounds}")
        if self._role != "trainer":
            self._refuse(f"asks for training in round {r + 1}", "of an evaluator nothing")
        listed = config.participants
        if listed is not None and self._silo_id not in listed[r]:
            self._refuse(f"asks for round {r + 1}", "this silo is not one of its participants")
        steps, eta = config.steps_at(r, self._silo_id, self._samples), config.lr_at(r)
        if told.num_steps != steps:
            self._refuse(f"asks for {counted(told.num_steps, 'step')}", str(steps))
        if not math.isclose(told.local_lr, eta, rel_tol=SCALE_TOLERANCE):
            self._refuse(f"asks for a step size of {told.local_lr:g}", f"{eta:g}")
        if told.counted is not None and told.counted.round_index >= r:
            was = told.counted.round_index + 1
            self._refuse(f"counts an update of round {was} in round {r + 1}", "no such order")
        self._check_scale(r, told.inference_scale)

    def _check_scale(self, r: int, scale: float | None) -> None:
        """alpha*h*P_ref of the round before: P_ref is a mean of the silos' steps."""
        kernel, config = self._offer.config.kernel, self._offer.config
        if r == 0 or scale is None:
            needless = r > 0 and not kernel.infers
            if not (needless or (r == 0 and scale is None)):
                self._refuse(f"gives an inference scale of {scale} in round {r + 1}", "otherwise")
            return
        one = kernel.alpha * config.lr_at(r - 1) * kernel.lr_scale
        least, most = (counted_steps(kernel, p) for p in _steps_of_silos(config, r - 1))
        low, high = one * least * (1 - SCALE_TOLERANCE), one * most * (1 + SCALE_TOLERANCE)
        if not low <= scale <= high:
            wanted = f"{one * least:g}" if least == most else f"at least {one * least:g}"
            self._refuse(f"gives an inference scale of {scale:g} in round {r + 1}", wanted)

    def _check_vectors(self, told: Assignment[Announced]) -> None:
        kernel, r = self._offer.config.kernel, told.round_index
        trains = told.action is Action.TRAIN
        may = {
            VectorId.X_PREV: kernel.infers,
            VectorId.MEAN_MOMENTUM: kernel.average,
            VectorId.CONTROL: kernel.tells_control,
        }
        for vector in BESIDE:
            wanted = trains and r > 0 and may[vector]
            there = vector in told.vectors
            if there and not (trains and may[vector]):
                self._refuse(f"sends {vector.name} in round {r + 1}", "no such vector")
            if vector is not VectorId.MEAN_MOMENTUM and there != wanted:
                missing = "sends" if there else "leaves out"
                self._refuse(f"{missing} {vector.name} in round {r + 1}", "otherwise")
        if (frozen := told.vectors.get(VectorId.FROZEN)) is not None:
            self._frozen = self._frozen or frozen.digest
            if frozen.digest != self._frozen:
                self._refuse(f"has other frozen parameters in round {r + 1}", "they stay")

    def _need(self, ok: bool, asks: str, says: str) -> None:
        if not ok:
            self._refuse(asks, says)

    def _refuse(self, asks: str, says: str) -> None:
        raise ContradictionError(
            self._offer.run_id,
            f"the coordinator {asks} where the run's configuration says {says}; this silo takes no "
            "part in it. Both ends may need one version of domo; else ask who runs the coordinator",
        )


class _Way:
    """Rounds go on: back to one that was made, with another model, is what a backup explains.

    After a crash a coordinator goes back one round at most, and to the same model.
    """

    def __init__(self) -> None:
        self._models: dict[int, object] = {}  # of the newest two rounds
        self._back = 0

    def back_at(self, r: int, model: object) -> int:
        """Go on to a model; how often the way has gone back by now, if that is too often; else 0.

        Args:
            r: Its index.
            model: All of it that is the coordinator's to choose.
        """
        newest = max(self._models, default=-1)
        if r < newest or (r == newest and self._models[r] != model):
            self._back += self._models.get(r) != model
            if self._back > MOST_WAYS_BACK:
                return self._back
            self._models = {k: v for k, v in self._models.items() if k < r}
        self._models[r] = model
        self._models = {k: self._models[k] for k in sorted(self._models)[-2:]}
        return 0


def _given(told: Assignment[Announced]) -> object:
    """What a round's update is made of beside the data: the shift and the buffers are part of it.

    Frozen parameters are left out: they stay, which is looked at before.
    """
    vectors = {v: digest for v, digest in told.digests.items() if v is not VectorId.FROZEN}
    return vectors, told.inference_scale


def _steps_of_silos(config: RunConfig, r: int) -> tuple[float, float]:
    """The least and the largest P that a silo may have had in a round."""
    if config.local_steps is not None:
        return config.local_steps, config.local_steps
    if config.local_steps_list is not None:
        entry = config.local_steps_list[r]
        steps = [entry] if isinstance(entry, int) else list(entry.values())
        return min(steps, default=1), max(steps, default=1)
    return 1, math.inf
