"""One local round at a silo: batches and a module in, an update out.

`LocalRound` is what the loop API hands to a user, what the agent behind `domo-client` drives, and
what the simulation runs, so all three train alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from domo import algorithm
from domo.algorithm import LocalSteps, infer_momentum, infer_momentum_, num_non_finite
from domo.errors import DivergenceError, IncompleteRoundError, RoundError
from domo.metrics.numbers import numbers_of
from domo.metrics.table import Measured, Sum, Table, check_measured, check_names, finite_of, more
from domo.model.flat import FlatModel
from domo.model.floats import trained_floats
from domo.model.layout import Section
from domo.model.private import OTHERS, kept_of, private_of
from domo.seeds import generator_for, seed_for
from domo.stages.now import begin, in_stage
from domo.training.batches import BatchLoader, random_plan, seed_torch, to_device
from domo.training.devices import to_host
from domo.training.forgotten_step import no_step, num_changes
from domo.training.loading.travel import ends_with_us
from domo.training.round_data import CONTROL, Kept, LocalResult, RoundNumbers
from domo.training.task_errors import by_name

MAX_ACCUMULATION = 256
"""Batches without an optimizer step after which a loop is taken to have forgotten it."""


class LocalRound:
    """One round at one silo: x_r is in the model; evaluate, then take exactly P steps.

    Args:
        flat: The silo's model; it is overwritten with the vectors below.
        numbers: The round.
        x_r: Server model, shape (n,).
        x_prev: x_{r-1}, shape (n,); needed from round 1 on where the kernel `infers`.
        mbar: Mean local momentum, shape (n,); average rows only.
        buffers: Server values of float and integer buffers.
        on_step: Called before each batch with this round and the steps done; False abandons it.
        on_evaluation: Called after each `evaluate` with all sums of the round.
        spend: Whether x_prev, and without pre-fusion x_r too, may be overwritten, for less memory.
        c_r: Server control, shape (n,); where the kernel `tells_control`, from round 1 on.
        kept: What the silo has kept of its last round but for e_k; empty: nothing yet.
    """

    def __init__(
        self,
        flat: FlatModel,
        numbers: RoundNumbers,
        x_r: Tensor,
        x_prev: Tensor | None = None,
        mbar: Tensor | None = None,
        buffers: Mapping[Section, Tensor] | None = None,
        on_step: Callable[["LocalRound", int], bool] | None = None,
        on_evaluation: Callable[[Measured], None] | None = None,
        spend: bool = False,
        c_r: Tensor | None = None,
        kept: Kept | None = None,
    ):
        flat.check()
        flat.load(Section.TRAINABLE, x_r)
        for section, values in (buffers or {}).items():
            flat.load(section, values)
        flat.load(Section.PRIVATE, private_of(flat, kept or {}))
        for p in (*flat.params, *flat.own_params):  # a failed attempt has left some
            p.grad = None
        self.flat, self.numbers = flat, numbers
        given = (buffers or {}).get(Section.FLOAT_BUFFER)
        self._floats = flat.read(Section.FLOAT_BUFFER) if given is None else given
        self.abandoned = False
        self.metrics: dict[str, float] = {}
        self.evaluation: dict[str, Sum | Table] = {}
        self._result: LocalResult | None = None
        self._on_evaluation = on_evaluation or (lambda sums: None)
        self._on_step = on_step or (lambda rnd, done: True)
        device = flat.vector.device
        self._mbar = None if mbar is None else mbar.to(device, non_blocking=True)
        self._m_r: Tensor | None = None
        if numbers.kernel.infers and x_prev is not None and numbers.num_steps:
            scale = numbers.inference_scale
            if scale is None:
                raise RoundError("x_{r-1} came without its inference scale")
            before = x_prev.to(device, non_blocking=True)
            infer = infer_momentum_ if spend or before is not x_prev else infer_momentum
            self._m_r = infer(before, flat.vector, scale)
        self.kept, told = kept or {}, c_r if numbers.kernel.tells_control else self._m_r
        sides = [None if t is None else t.to(device) for t in (told, self.kept.get(CONTROL))]
        self._correction = algorithm.correction(numbers.kernel, *sides)
        mine = spend and x_r.device == device and numbers.kernel.fusion != "pre"
        self._scratch = x_r if mine else None
        self._opt: LocalSteps | None = None
        self._begun = False

    @property
    def model(self) -> nn.Module:
        """The module being trained."""
        return self.flat.module

    def goes_on(self) -> bool:
        """Whether the round is still wanted."""
        return self._on_step(self, self._opt.num_done if self._opt else 0)

    @property
    def round_index(self) -> int:
        """The round; the model in hand is x_r."""
        return self.numbers.round_index

    @property
    def num_steps(self) -> int:
        """P of this silo; 0 in a round that only evaluates."""
        return self.numbers.num_steps

    @property
    def device(self) -> torch.device:
        """Where the model lives; batches are moved there."""
        return self.flat.vector.device

    def evaluate(
        self,
        fn: Callable[[nn.Module, Any], Mapping[str, Sum | Table | tuple[float, float]]],
        batches: Iterable[Any],
    ) -> dict[str, float]:
        """Test x_r on local data; sums are reported, so averages over silos are exact.

        May be called several times, for several metrics; one that comes again replaces the first.

        Args:
            fn: `fn(model, batch)` -> metric name -> (sum, count), or a table of `domo.metrics`.
            batches: Evaluation batches.

        Returns:
            The local numbers of this call; empty where the run asks for none on this x_r.

        Raises:
            RoundError: Training has begun, so the model is no longer x_r.
            TaskError: `fn` gives something else, or names that cannot be shown.
        """
        if self._begun:
            raise RoundError("evaluate() belongs before the batch loop: the model is not x_r now")
        if not self.numbers.evaluates:
            return {}
        sums: dict[str, Sum | Table] = {}
        with self.flat.testing(), in_stage("test"):
            for batch in ends_with_us(batches):
                begin("test")
                measured = by_name(fn(self.model, to_device(batch, self.device)))
                for name, given in measured.items():
                    sums[name] = more(sums.get(name), name, given)
        check_measured(self.evaluation | sums)
        self.evaluation |= sums
        self._on_evaluation(self.evaluation)
        return numbers_of([sums])

    def optimizer(self) -> LocalSteps:
        """The local step of the run's method. Make it after the model is in place."""
        if self._opt is None:
            self.flat.check()
            self._opt = algorithm.local_steps(
                self.numbers.kernel,
                self.flat.vector,
                self.flat.params,
                state={k: v for k, v in self.kept.items() if k not in OTHERS},
                mbar_r=self._mbar,
                own=(self.flat.own_vector, self.flat.own_params),
                h=self.numbers.local_lr,
                num_steps=max(1, self.num_steps),
                m_r=self._m_r,
                correction=self._correction,
                scratch=self._scratch,
                spend=self._correction is not self._m_r,  # m_r was made here
                factor=self.numbers.factor,
            )
        return self._opt

    def batches(
        self,
        data: Dataset[Any] | BatchLoader,
        *,
        augment: Callable[[Any, torch.Generator], Any] | None = None,
        plan: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
    ) -> Iterator[Any]:
        """Batches until P optimizer steps are made; DOMO's shift happens as it starts.

        Before each batch torch's global generator is seeded for this step (dropout).

        Args:
            data: Training data, or a loader to use again each round.
            augment: Random augmentation of a collated batch.
            plan: Index lists to use in place of the seeded permutation.
            num_workers: Loader processes, where `data` is a dataset.

        Raises:
            RoundError: No optimizer step within many batches, or an empty dataset.
        """
        n = self.numbers
        if not n.num_steps:
            return
        loader = data if isinstance(data, BatchLoader) else BatchLoader(data, num_workers)
        if not len(loader):
            raise RoundError("the training data is empty")
        opt = self.optimizer()
        self.flat.check()
        with torch.no_grad():
            if not self._begun:
                opt.begin()
        self._begun = True
        at = (n.run_seed, n.silo_id, n.round_index)
        order = random_plan(len(loader), n.batch_size, *at, n.drop_last) if plan is None else plan
        stream, index, last_step_at = loader.load(order), 0, 0
        weights_at = num_changes(self.flat.params)
        begin("step")
        while opt.num_done < n.num_steps:
            if not self._on_step(self, opt.num_done):
                self.abandoned = True
                return
            batch = next(stream, self)
            if batch is self:  # the plan has ended
                return
            if augment is not None:
                batch = augment(batch, generator_for(*at, index, "augment"))
            seed_torch(seed_for(*at, index, "model"), self.device)
            done = opt.num_done
            yield to_device(batch, self.device)
            index += 1
            if opt.num_done > done:
                last_step_at, weights_at = index, num_changes(self.flat.params)
            if index - last_step_at >= MAX_ACCUMULATION:
                raise RoundError(no_step(self.flat.params, weights_at, MAX_ACCUMULATION))
        begin("round")
        self._on_step(self, opt.num_done)

    def log(self, **metrics: float) -> None:
        """Numbers to show beside this round, such as the training loss.

        Raises:
            TaskError: They are too many, or have names that cannot be shown.
        """
        check_names({*self.metrics, *metrics})
        self.metrics |= finite_of(metrics)

    def finish(self) -> LocalResult:
        """Recover the update after the last step.

        Raises:
            IncompleteRoundError: Fewer than P steps were made.
            StrayParameterError: Parameters were replaced or moved.
            DivergenceError: The update has non-finite entries.
        """
        if self._result is not None:
            return self._result
        done = self._opt.num_done if self._opt and self._begun else 0
        if done > self.num_steps:
            raise RoundError(
                f"round {self.round_index + 1} wants {self.num_steps} local steps and {done} were "
                "made; nothing was sent"
            )
        if done < self.num_steps or self._opt is None:
            raise IncompleteRoundError(
                f"round {self.round_index + 1} was left after {done} of {self.num_steps} local "
                "steps; nothing was sent",
                done,
                self.num_steps,
            )
        self.flat.check()
        update, momentum = self._opt.finish()
        bad = num_non_finite(update)
        if bad:
            raise DivergenceError(
                f"local training diverged: {bad} of {update.numel()} entries of the update are "
                "not finite. A smaller local_lr usually mends it.",
                bad,
            )
        here, momentum, s = to_host(update, momentum, self._correction)
        assert here is not None
        kernel, h = self.numbers.kernel, self.numbers.local_lr
        self._result = LocalResult(
            update=here,
            momentum=momentum,
            float_buffers=trained_floats(
                self.flat.layout, self._floats, self.flat.read(Section.FLOAT_BUFFER)
            ),
            integer_buffers=self.flat.read(Section.INTEGER_BUFFER),
            num_steps=done,
            metrics=dict(self.metrics),
            correction=s,
            pulled=algorithm.pulled(kernel, h, done),
            state={name: v.cpu() for name, v in self._opt.kept().items()} | kept_of(self.flat),
        )
        return self._result
