"""The configuration of a run: what all silos and the simulation must agree on.

Everything here is part of the run's digest. Who may be missing, and for how long, is policy and is
part of it too, so a run can be understood from this object alone.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from domo.errors import ConfigError
from domo.inputs.images import ImageSettings
from domo.meaning.value import MAX_BYTES, MAX_CLASSES, ClassName, no_name_twice
from domo.methods import (
    Hyperparameters,
    Kernel,
    RoundEnd,
    StepNorm,
    canonical_name,
    make_kernel,
    state_sizes,
)
from domo.metrics.names import MOST_NAME, Better, direction, is_metric_name
from domo.names import MOST_TASK, MOST_TITLE, NAME, TASK, is_task, plain

MOST_STEPS = 2**31 - 1
"""Local steps that a round can ask for."""
MOST_TIME_S = 315_360_000.0
"""Ten years: longer no clock of the system can wait for sure."""
MOST_FACTOR = 1e38
"""Step sizes, coefficients, weights: more float32 does not hold."""
MOST_EPOCHS = 1e6
"""Passes over a silo's data in one round."""

Positive = Annotated[float, Field(gt=0, le=MOST_FACTOR, allow_inf_nan=False)]
Epochs = Annotated[float, Field(gt=0, le=MOST_EPOCHS, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=MOST_TIME_S, allow_inf_nan=False)]
Pattern = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]
OptimizerName = Annotated[str, Field(pattern=r"^[A-Za-z]{1,64}$")]
OptimizerKey = Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
OptimizerValue = bool | int | Finite | str | tuple[Finite, ...] | None
SiloId = Annotated[str, Field(pattern=rf"^{NAME}$")]
UpdateDtype = Literal["float32", "bfloat16", "float16"]
MOST_EVALUATORS = 1000
MOST_PATTERNS = 100
"""Patterns of names of private tensors."""
MOST_ARGS = 32
"""Arguments of a local optimizer; none has as many."""
MAX_LICENCE, MAX_STATEMENT = 200, 4000
"""Characters of what is said for the card."""


def as_meant(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as REST shows it, with what it means where it says nothing.

    Two that mean the same are equal, whether a default was given, left out, or not known yet to the
    version that took it.
    """
    known = RunConfig.model_fields
    meant = {key: field.get_default() for key, field in known.items() if not field.is_required()}
    meant |= config
    for key, field in known.items():
        extra = field.json_schema_extra
        if not isinstance(extra, dict) or "unset" not in extra or meant.get(key) is not None:
            continue
        others = extra["unless"]
        if isinstance(others, list) and all(meant.get(str(other)) is None for other in others):
            meant[key] = extra["unset"]
    return meant


class _BrokenRuleError(ValueError):
    """Keys that do not go together; `key` is the one that it is said at."""

    def __init__(self, key: str, text: str):
        super().__init__(text)
        self.key = key


class RunConfig(BaseModel):
    """One run: a task, a method, R rounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = Field(None, pattern=rf"^{NAME}$")
    """Shown everywhere; the method's and the task's name by default."""
    task: str = Field(json_schema_extra={"pattern": rf"^{TASK}$", "maxLength": MOST_TASK})
    """A named task (`domo tasks` lists them) or `module:Class` importable at the silos."""
    images: ImageSettings | None = None
    """How image files become inputs: size, channels, aspect and range; for tasks that read
    folders of images."""
    classes: (
        Annotated[
            tuple[ClassName, ...],
            Field(min_length=2, max_length=MAX_CLASSES),
            AfterValidator(no_name_twice),
        ]
        | None
    ) = None
    """Names of the classes in the order of their numbers; a silo with another list is refused. By
    default the list of the first silo that enrols is the measure."""
    method: str = "DOMO"
    """FedAvg, FedAvgSM, FedAvgLM, FedAvgLM-Z, FedAvgSLM, FedAvgSLM-Z, DOMO, DOMO-S, ..."""
    num_rounds: int = Field(ge=1, le=1_000_000)
    """R: rounds, each of them local training at the silos and one new server model."""
    seed: int = Field(0, ge=0, le=2**63 - 1)
    """Initial model, sampling of silos, order of batches, dropout and augmentation."""
    threads: int = Field(1, ge=1, le=1024)
    """CPU threads of torch at each silo; part of what makes bytes equal. A silo that gives fewer
    (`--max-threads`) declines."""

    local_lr: Positive = 0.05
    """eta, the local step size, before decay."""
    lr_decay: float = Field(0.1, gt=0, le=1)
    """Factor on eta at each milestone."""
    lr_milestones: tuple[float, ...] = ()
    """Fractions of num_rounds at which eta decays, such as [0.6, 0.8]."""
    lr_schedule: Literal["milestones", "cosine", "linear"] = "milestones"
    """How eta falls: at the milestones, or from warm-up to the end along a cosine or a line."""
    lr_floor: float = Field(0.0, ge=0, le=1)
    """Where a cosine or a line ends, as a fraction of local_lr."""
    lr_warmup: float = Field(0.0, ge=0, le=1_000_000)
    """Rounds in which eta grows to local_lr."""
    lr_by: Literal["round", "step"] = "round"
    """Whether eta stays for a round, or goes on within it from local step to local step."""
    local_lrs: tuple[Positive, ...] | None = None
    """Explicit eta for each round."""

    local_epochs: Epochs | None = Field(
        None, json_schema_extra={"unset": 1, "unless": ["local_steps", "local_steps_list"]}
    )
    """E, passes over a silo's data in a round; 1 where neither this nor local_steps is given."""
    local_steps: int | None = Field(None, ge=1, le=MOST_STEPS)
    """P, local steps in a round, the same at all silos; in place of local_epochs."""
    local_steps_list: tuple[int | dict[str, int], ...] | None = None
    """Explicit P for each round, or P for each silo in each round."""
    batch_size: int = Field(32, ge=1, le=2**24)
    """b, samples in a local step."""
    drop_last: bool = False
    """Leave out the last batch of each pass where it has fewer than batch_size samples. A silo with
    fewer than batch_size in all has one batch of them."""

    server_momentum: float = Field(0.9, ge=0, lt=1)
    """mu_s, momentum of the server, in [0, 1)."""
    local_momentum: float = Field(0.6, ge=0, lt=1)
    """mu_l, momentum of local steps, in [0, 1)."""
    fusion_coef: float = Field(0.9, ge=0, le=MOST_FACTOR, allow_inf_nan=False)
    """beta, how much of the server momentum goes into local training."""
    server_lr: Positive = 1.0
    """alpha, step size of the server, as a factor on the local one."""
    weight_decay: float = Field(0.0, ge=0, le=MOST_FACTOR, allow_inf_nan=False)
    """L2 coefficient, added to the gradient."""
    step_norm: StepNorm = "per_silo"
    """How unequal P_k are averaged."""
    prox: float | None = Field(None, ge=0, le=MOST_FACTOR, allow_inf_nan=False)
    """rho, how strongly a silo is held near the model that it was sent; by default 0, and 0.01 with
    FedProx and FedDyn."""
    adaptive_lr: Positive = 0.06
    """Step of each parameter in a round, at the server of FedAdam, FedYogi and FedAdagrad, in units
    of the parameters; in place of server_lr."""
    adaptive_beta2: float = Field(0.99, ge=0, lt=1)
    """How long the server of FedAdam and FedYogi remembers the squares of updates."""
    adaptive_tau: Positive = 1e-3
    """What is added to their root, in units of the parameters: smaller is more adaptive. Of FedExP,
    what is added to the square of the mean update."""
    local_optimizer: OptimizerName = "SGD"
    """What takes the local steps: SGD, or another class of `torch.optim`, such as AdamW or Muon,
    with momentum of its own."""
    local_optimizer_args: (
        Annotated[dict[OptimizerKey, OptimizerValue], Field(max_length=MOST_ARGS)] | None
    ) = None
    """Its own arguments, such as betas = [0.9, 0.95]; its step size is local_lr, its weight decay
    weight_decay."""
    local_state: RoundEnd | None = None
    """What becomes of its state when a round ends: reset, average (SGD), or keep; by default what
    the method says, which is reset for all others than SGD."""
    private: Annotated[tuple[Pattern, ...], Field(max_length=MOST_PATTERNS)] = ()
    """Patterns of names of tensors that never travel: each silo trains and keeps its own, such as
    ["*.bn*"] (FedBN) or ["head.*"] (FedPer)."""
    personal: Literal["none", "ditto"] = "none"
    """ditto: beside the run each silo trains a model of its own, held near the server's, and tests
    it too; for tasks."""
    personal_prox: Positive = 0.1
    """lambda, how strongly it is held."""
    clip_norm: Positive | None = None
    """The largest norm of a gradient; longer ones are scaled down."""
    weights: Literal["uniform", "samples"] | dict[str, Positive] = "uniform"
    """omega_k: 1, the number of samples, or a number for each silo."""

    num_silos: int | None = Field(None, ge=1, le=100_000)
    """K: the roster is the first K silos to enrol. Not with `roster`."""
    roster: tuple[SiloId, ...] | None = None
    """The silos by name."""
    evaluators: tuple[SiloId, ...] = Field((), max_length=MOST_EVALUATORS)
    """Silos that test models and never train, by name; nobody else may come as one."""
    participation: int | None = Field(None, ge=1, le=100_000)
    """S of K silos in each round; all by default."""
    participants: tuple[tuple[SiloId, ...], ...] | None = None
    """Explicit participants of each round."""

    on_missing: Literal["wait", "proceed", "fail"] = "wait"
    """When a round's deadline passes: wait on, go on with those that are there, or fail."""
    min_silos: int | None = Field(None, ge=1, le=100_000)
    """Updates that a round needs under `proceed`; all of the participants by default."""
    required_silos: tuple[SiloId, ...] = ()
    """Silos without which no round closes (in rounds that they are sampled for)."""
    round_deadline_s: Seconds | None = None
    """Seconds after which `on_missing` decides; never by default."""
    grace_s: float = Field(0.0, ge=0, le=MOST_TIME_S)
    """Seconds that a round stays open for the others once it has min_silos updates."""

    same_code: bool = False
    """Refuse a silo whose code of the task is another one than that of the silos before it; by
    default that is an event."""
    norm_check: Literal["off", "warn", "reject"] = "warn"
    """What happens to an update whose norm is far above the others' (three or more): nothing, an
    event, or it is refused and its silo counts as missing."""
    norm_factor: float = Field(10.0, gt=1, le=1e6, allow_inf_nan=False)
    """How many times the median norm is far."""

    update_dtype: UpdateDtype = "float32"
    """How d_k and m_{k,P} travel. 16 bits halve what a silo sends, with error feedback for d_k."""

    evaluate_every: int = Field(1, ge=0, le=1_000_000)
    """Test the server model every so many rounds (and at the end); 0: never."""
    evaluation_deadline_s: Seconds = 120.0
    """How long the run waits for the last numbers on x_R; with `stop_after`, on every x_r."""
    primary_metric: str | None = Field(None, max_length=MOST_NAME)
    """What models are judged by: a name that `evaluate` gives, or one that `domo.metrics` makes of
    it, such as auc. By default accuracy if there is one, else loss, else the first name."""
    primary_better: Better | None = None
    """Which way the primary metric is better; needed only where its name does not tell."""
    stop_after: int | None = Field(None, ge=1, le=1_000_000)
    """Tested models without a better primary metric after which the run ends, before its last
    round; never by default."""
    stop_min_delta: float = Field(0.0, ge=0, le=1e100, allow_inf_nan=False)
    """How much better a model must be for `stop_after` to begin anew."""
    initial_model: str | None = None
    """Safetensors file made by `domo init`, at the coordinator."""
    similarity: float = Field(0.05, ge=0, le=1)
    """s of the split, for silos that train on a shard of a public dataset (`--shard`)."""

    licence: str | None = Field(None, max_length=MAX_LICENCE)
    """Of the model, for its card; an identifier of the Hugging Face Hub such as apache-2.0."""
    data_licence: str | None = Field(None, max_length=MAX_LICENCE)
    """Of the silos' data, or the terms under which they may be used; for the card."""
    intended_use: str | None = Field(None, max_length=MAX_STATEMENT)
    """What the model is for; for the card."""
    limits: str | None = Field(None, max_length=MAX_STATEMENT)
    """What it is not for, and where it is known to fail; for the card."""
    notes: str | None = Field(None, max_length=MAX_STATEMENT)
    """Anything else, as Markdown; for the card."""

    @classmethod
    def stored(cls, data: Mapping[str, Any]) -> Self:
        """One that was taken before: its task may be written as is no longer allowed."""
        return cls.model_validate(data, context={"stored": True})

    @field_validator("task")
    @classmethod
    def _names(cls, task: str, info: ValidationInfo) -> str:
        if not (info.context or {}).get("stored") and not is_task(task):
            raise ValueError(
                "must be a named task, such as digits, or module:Class, such as "
                f"my_tasks.scans:Tumours: letters, digits, '_' and '-', at most {MOST_TASK} "
                "characters"
            )
        return task

    @model_validator(mode="after")
    def _relations(self) -> Self:
        def need(ok: bool, key: str, text: str) -> None:
            if not ok:
                raise _BrokenRuleError(key, text)

        try:
            object.__setattr__(self, "method", canonical_name(self.method))
        except ConfigError as error:
            raise _BrokenRuleError("method", str(error)) from None
        need(
            not (self.num_silos and self.roster), "num_silos", "give num_silos or roster, not both"
        )
        base, _, number = self.task.partition(":")
        n = len(self.classes or ())
        need(
            not n or base != "imagefolder" or number == str(n),
            "classes",
            f"classes names {n} classes: the task is then imagefolder:{n}, not {self.task}",
        )
        need(
            sum(len(name.encode()) + 3 for name in self.classes or ()) < MAX_BYTES * 3 // 4,
            "classes",
            f"classes has more than {MAX_BYTES * 3 // 4} bytes in all",
        )
        twice = self.roster and len(set(self.roster)) < len(self.roster)
        need(not twice, "roster", "roster names a silo twice")
        tests = set(self.evaluators)
        need(len(tests) == len(self.evaluators), "evaluators", "evaluators names a silo twice")
        both = sorted(tests & {*(self.roster or ()), *self.required_silos})
        text = f"evaluators names {', '.join(both)}, which trains, and so tests anyway"
        need(not both, "evaluators", text)
        k = len(self.roster) if self.roster else self.num_silos
        s = self.participation
        need(
            s is None or k is None or s <= k,
            "participation",
            f"participation = {s} is more than {k} silos",
        )
        most = s or k
        need(
            self.min_silos is None or most is None or self.min_silos <= most,
            "min_silos",
            f"min_silos = {self.min_silos} is more than the {most} silos of a round",
        )
        required = len(set(self.required_silos))
        most = self.num_silos or required
        need(required <= most, "required_silos", f"required_silos names {required} of {most} silos")
        given = [self.local_epochs, self.local_steps, self.local_steps_list]
        need(
            sum(g is not None for g in given) <= 1,
            "local_epochs",
            "give one of local_epochs, local_steps(_list)",
        )
        for key in ("local_lrs", "local_steps_list", "participants"):
            value = getattr(self, key)
            need(
                value is None or len(value) == self.num_rounds,
                key,
                f"{key} must have one entry for each of the {self.num_rounds} rounds"
                + (f", it has {len(value)}" if value is not None else ""),
            )
        need(
            all(p for p in self.participants or ()),
            "participants",
            "participants has a round with nobody in it",
        )
        need(
            all(0 < m <= 1 for m in self.lr_milestones),
            "lr_milestones",
            "lr_milestones are fractions of num_rounds, in (0, 1]",
        )
        need(
            self.personal == "none" or not self.private,
            "personal",
            "a personal model is a whole one: private and personal do not go together",
        )
        plain_lrs = (
            self.lr_schedule == "milestones" and not self.lr_warmup and self.lr_by == "round"
        )
        need(
            self.local_lrs is None or plain_lrs,
            "local_lrs",
            "give local_lrs, or lr_schedule, lr_warmup and lr_by, not both",
        )
        need(
            not self.lr_milestones or self.lr_schedule == "milestones",
            "lr_milestones",
            f"lr_schedule is {self.lr_schedule}, which has no lr_milestones",
        )
        need(
            self.lr_warmup <= self.num_rounds,
            "lr_warmup",
            f"lr_warmup = {self.lr_warmup:g} rounds is more than the {self.num_rounds} of the run",
        )
        for entry in self.local_steps_list or ():
            steps = entry.values() if isinstance(entry, dict) else [entry]
            need(
                all(1 <= p <= MOST_STEPS for p in steps),
                "local_steps_list",
                f"local_steps_list has a number below 1, or above {MOST_STEPS}",
            )
        self._check_primary(need)
        self._check_kernel()
        if self.roster:
            named = set(self.required_silos) | {s for p in self.participants or () for s in p}
            unknown = sorted(named - set(self.roster))
            need(not unknown, "roster", f"not on the roster: {', '.join(unknown)}")
        need(
            self.on_missing != "proceed" or self.min_silos is not None,
            "on_missing",
            'on_missing = "proceed" needs min_silos: how many updates a round must have',
        )
        need(
            self.on_missing != "fail" or self.round_deadline_s is not None,
            "on_missing",
            'on_missing = "fail" needs round_deadline_s',
        )
        return self

    def _check_kernel(self) -> None:
        try:
            kernel = self.kernel
            if kernel.optimizer == "SGD" and self.local_optimizer_args:
                raise ConfigError(
                    "SGD has no local_optimizer_args: its settings are local_lr, local_momentum "
                    "and weight_decay"
                )
            if kernel.optimizer != "SGD":
                from domo.algorithm.inner import check_optimizer

                check_optimizer(kernel)
        except ConfigError as error:
            key = "local_optimizer" if self.local_optimizer != "SGD" else "prox"
            key = "local_optimizer_args" if "local_optimizer_args" in str(error) else key
            raise _BrokenRuleError(key, str(error)) from None

    def _check_primary(self, need: Callable[[bool, str, str], None]) -> None:
        name = self.primary_metric
        need(
            name is None or is_metric_name(name),
            "primary_metric",
            "primary_metric is one printable line, such as auc",
        )
        need(
            name is None or self.better_of(name) is not None,
            "primary_better",
            f"nobody knows which way {name} is better: give primary_better, higher or lower",
        )
        need(
            name is not None or self.primary_better is None,
            "primary_better",
            "primary_better is of a primary_metric, and none is given",
        )
        need(
            self.stop_after is None or self.evaluate_every > 0,
            "stop_after",
            "stop_after needs tests of the models: evaluate_every = 0 has none",
        )

    def better_of(self, metric: str) -> Better | None:
        """Which way a metric is better; None: nobody knows."""
        given = self.primary_better if metric == self.primary_metric else None
        return given or direction(metric)

    @property
    def title(self) -> str:
        """The run's name; any path and any URL can have it as a part."""
        made = f"{self.method}-{self.task}".replace(":", ".").lower()
        return self.name or plain(made)[:MOST_TITLE]

    @property
    def digest(self) -> str:
        """Hex digest of every field that is not at its default."""
        text = json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The constants of the method."""
        return Hyperparameters(
            server_momentum=self.server_momentum,
            local_momentum=self.local_momentum,
            fusion_coef=self.fusion_coef,
            server_lr=self.server_lr,
            weight_decay=self.weight_decay,
            step_norm=self.step_norm,
            prox=self.prox,
            adaptive_lr=self.adaptive_lr,
            adaptive_beta2=self.adaptive_beta2,
            adaptive_tau=self.adaptive_tau,
            local_lr=self.local_lrs[0] if self.local_lrs else self.local_lr,
            local_optimizer=self.local_optimizer,
            local_optimizer_args=tuple(sorted((self.local_optimizer_args or {}).items())),
            local_state=self.local_state,
            clip_norm=self.clip_norm,
        )

    @property
    def kernel(self) -> Kernel:
        """The method with its numbers filled in."""
        some = self.participation is not None or self.participants is not None
        partial = some or self.on_missing == "proceed"
        return make_kernel(self.method, self.hyperparameters, partial)

    def kept_sizes(self, n: int, private: int = 1) -> dict[str, int]:
        """What a silo keeps from one of its rounds to the next: names and entries of vectors.

        Args:
            n: Parameters of the model that are shared.
            private: Entries of `domo.model.private`.
        """
        kernel, sizes = self.kernel, dict[str, int]()
        sizes |= {"residual": n} if self.update_dtype != "float32" else {}
        sizes |= {"control": n} if kernel.control != "none" else {}
        sizes |= {"private": private} if self.private else {}
        sizes |= {"personal": n} if self.personal != "none" else {}
        return sizes | (state_sizes(kernel.optimizer, n) if kernel.round_end == "keep" else {})

    @property
    def has_own_models(self) -> bool:
        """Whether each silo has a model of its own in the end: private tensors, or Ditto's."""
        return bool(self.private) or self.personal != "none"

    @property
    def keeps(self) -> frozenset[str]:
        """Names of what a silo keeps from one of its rounds to the next."""
        return frozenset(self.kept_sizes(0))

    @property
    def expected_silos(self) -> int:
        """K."""
        return len(self.roster) if self.roster else (self.num_silos or 1)

    @property
    def needs_samples(self) -> bool:
        """Whether silos must say how many samples they have."""
        by_epochs = self.local_steps is None and self.local_steps_list is None
        return by_epochs or self.weights == "samples"

    def lr_at(self, round_index: int) -> float:
        """eta_r."""
        if self.local_lrs is not None:
            return self.local_lrs[round_index]
        return self.local_lr * self._lr_share(round_index + (0.5 if self.lr_by == "step" else 0.0))

    def lr_factor(self, round_index: int, num_steps: int) -> Callable[[int], float] | None:
        """How eta_r goes within a round: local step p -> factor, about 1 on average; or it stays.

        Args:
            round_index: r.
            num_steps: P.
        """
        if self.lr_by == "round" or self.local_lrs is not None:
            return None
        middle = self._lr_share(round_index + 0.5)
        return lambda p: self._lr_share(round_index + (p + 0.5) / num_steps) / middle

    def _lr_share(self, at: float) -> float:
        """Eta after so many rounds, over local_lr."""
        warm = 1.0
        if at < self.lr_warmup:
            warm = min(1.0, (at if self.lr_by == "step" else at + 1) / self.lr_warmup)
        if self.lr_schedule == "milestones":
            ends = (round(m * self.num_rounds, 9) for m in self.lr_milestones)
            return warm * self.lr_decay ** sum(at >= end for end in ends)
        gone = max(0.0, at - self.lr_warmup) / max(1e-9, self.num_rounds - self.lr_warmup)
        left = 1 - gone if self.lr_schedule == "linear" else (1 + math.cos(math.pi * gone)) / 2
        return warm * (self.lr_floor + (1 - self.lr_floor) * left)

    def steps_at(self, round_index: int, silo_id: str, num_samples: int) -> int:
        """P of a silo in a round.

        Raises:
            ConfigError: The explicit list has no entry for the silo.
        """
        if self.local_steps_list is not None:
            entry = self.local_steps_list[round_index]
            if isinstance(entry, int):
                return entry
            if silo_id not in entry:
                raise ConfigError.at(
                    "local_steps_list",
                    f"local_steps_list[{round_index}] has no entry for {silo_id}",
                )
            return entry[silo_id]
        if self.local_steps is not None:
            return self.local_steps
        batches = batches_of_pass(num_samples, self.batch_size, self.drop_last)
        return max(1, math.ceil(round((self.local_epochs or 1.0) * batches, 9)))

    @property
    def steps_by_samples(self) -> bool:
        """Whether how many steps a silo makes follows from how many samples it has."""
        return self.local_steps_list is None and self.local_steps is None

    def most_steps(self, silo_id: str, num_samples: int) -> int:
        """The largest P of a silo in any round that may have it; 0: there is none."""
        if self.local_steps_list is None:
            return self.steps_at(0, silo_id, num_samples)
        listed = self.participants
        mine = [r for r in range(self.num_rounds) if listed is None or silo_id in listed[r]]
        entries = [self.local_steps_list[r] for r in mine]
        return max((e if isinstance(e, int) else e.get(silo_id, 0) for e in entries), default=0)

    def participants_at(self, round_index: int, roster: Sequence[str]) -> list[str]:
        """The silos of a round, in roster order: listed, sampled by (seed, r), or all.

        Raises:
            ConfigError: The explicit list names a silo that is not on the roster.
        """
        if self.participants is not None:
            named = set(self.participants[round_index])
            if named - set(roster):
                raise ConfigError.at(
                    "participants",
                    f"participants[{round_index}] names {', '.join(sorted(named - set(roster)))}, "
                    "not on the roster",
                )
            return [s for s in roster if s in named]
        size = self.participation
        if size is None or size >= len(roster):
            return list(roster)
        import torch  # here: whoever only reads a config shall not wait for it

        from domo.seeds import generator_for

        source = generator_for(self.seed, "", round_index, 0, "participants")
        chosen = torch.randperm(len(roster), generator=source)[:size].tolist()
        return [s for i, s in enumerate(roster) if i in set(chosen)]

    def weight_of(self, silo_id: str, num_samples: int) -> float:
        """omega_k.

        Raises:
            ConfigError: The table has no weight for the silo.
        """
        if isinstance(self.weights, dict):
            if silo_id not in self.weights:
                raise ConfigError.at("weights", f"weights has no entry for {silo_id}")
            return self.weights[silo_id]
        return float(num_samples) if self.weights == "samples" else 1.0

    def share_of(self, participants: Sequence[str], samples: Mapping[str, int]) -> float:
        """The part of all silos that takes part in a round, by weights; 1 where nobody needs it.

        Args:
            participants: Of the round.
            samples: Training samples of all silos of the run, in roster order.
        """
        kernel = self.kernel
        if not (kernel.tells_control or kernel.server == "dyn"):
            return 1.0
        weights = {s: self.weight_of(s, num) for s, num in samples.items()}
        return sum(weights[s] for s in participants) / sum(weights.values())

    def check_tables(self, roster: Sequence[str]) -> None:
        """See that the tables have what every round to come asks of them.

        Not part of the validation: a configuration that was taken once can always be read again.

        Args:
            roster: Silos, in the order of the roster.

        Raises:
            ConfigError: A table names a stranger, or lacks a silo in a round that it is in.
        """
        by_silo = any(isinstance(entry, dict) for entry in self.local_steps_list or ())
        for r in range(self.num_rounds if by_silo or self.participants is not None else 0):
            for silo_id in self.participants_at(r, roster):
                self.steps_at(r, silo_id, 1)
        listed = None if self.participants is None else {s for p in self.participants for s in p}
        for silo_id in roster if listed is None else sorted(listed):
            self.weight_of(silo_id, 1)

    def evaluates_at(self, model_index: int) -> bool:
        """Whether x_{model_index} is tested."""
        if not self.evaluate_every:
            return False
        return model_index % self.evaluate_every == 0 or model_index == self.num_rounds


def batches_of_pass(num_samples: int, batch_size: int, drop_last: bool = False) -> int:
    """Batches of one pass over a silo's data, as `domo.training.batches.random_plan` gives them."""
    if drop_last and num_samples >= batch_size:
        return num_samples // batch_size
    return math.ceil(num_samples / batch_size)


def sort_roster(silo_ids: Sequence[str]) -> list[str]:
    """The frozen order of a roster: bytewise."""
    return sorted(silo_ids, key=str.encode)
