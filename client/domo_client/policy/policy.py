"""A silo's policy as one table of settings: a file `policy.toml`, or what holds without one.

It is this silo's alone: the coordinator neither sends it nor sees it, but for the reason of a
refusal.
"""

import re
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from domo.errors import ConfigError
from domo.methods import canonical_name
from domo.names import MOST_TASK, TASK
from domo.ops.config_file import load_toml, validate

FILE = "policy.toml"
"""In a silo's state folder."""
MOST = 2**31 - 1
MOST_NAMED = 1000
"""Entries of a list."""
DEFAULT, OPEN = "default", "open"
"""What --policy may be beside a file."""
HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def _method(name: str) -> str:
    try:
        return canonical_name(name)
    except ConfigError as error:
        raise ValueError(str(error)) from None


Pin = Annotated[str, Field(pattern=r"^(ca|key):[0-9a-f]{64}$")]
TaskName = Annotated[str, Field(pattern=rf"^{TASK}$", max_length=MOST_TASK)]
Method = Annotated[str, AfterValidator(_method)]
LayoutDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
DeviceName = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]
Count = Annotated[int, Field(ge=1, le=MOST)]
Some = Annotated[float, Field(gt=0, le=1e38, allow_inf_nan=False)]


class Policy(BaseModel):
    """What this silo does for a coordinator. A list that is not given leaves its matter open."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    coordinator: Annotated[tuple[Pin, ...], Field(max_length=MOST_NAMED)] | None = None
    """Coordinators that this silo joins: "ca:" and the SHA-256 of the CA's certificate, or "key:"
    and that of the coordinator's public key. By default the one that it was enrolled with or told
    to join."""
    tasks: Annotated[tuple[TaskName, ...], Field(max_length=MOST_NAMED)] | None = None
    """Tasks that may be trained, by name; --task can make that fewer. By default those of --task,
    else those that come with domo."""
    layouts: Annotated[tuple[LayoutDigest, ...], Field(max_length=MOST_NAMED)] | None = None
    """Digests of models that may be trained, as `domo-client policy check` tells them."""
    x0: Annotated[tuple[Sha256 | Literal["seed"], ...], Field(max_length=MOST_NAMED)] | None = None
    """Initial models that a run may begin with: the SHA-256 of their weights, or "seed", the model
    that this silo builds from the run's seed by itself. A silo that comes later cannot know."""
    methods: Annotated[tuple[Method, ...], Field(max_length=MOST_NAMED)] | None = None
    """Methods, by name."""
    min_batch: int = Field(default=16, ge=1, le=MOST)
    """Samples in a local step, at least: an update of one sample is that sample."""
    min_samples_per_update: int = Field(default=256, ge=1, le=MOST)
    """Samples that an update is made of, at least; whole passes over the data are always enough."""
    min_silos: int = Field(default=3, ge=1, le=100_000)
    """Silos in each round, at least: of two each can work out the other's update."""
    max_steps: Count | None = None
    """Local steps in a round, at most."""
    max_step_size: Some | None = None
    """eta, at most."""
    max_rounds: Count | None = None
    """Rounds of a run, at most."""
    max_rounds_a_day: int = Field(default=1000, ge=1, le=MOST)
    """Updates of all runs that leave in a day (UTC), at most."""
    max_tests_a_day: int = Field(default=1000, ge=1, le=MOST)
    """Models of all runs that are tested in a day (UTC), at most; each of them once."""
    max_threads: Count | None = None
    """CPU threads that a run may have; by default what --max-threads gives."""
    hours: Annotated[str, Field(pattern=rf"^{HOURS.pattern}$")] | None = None
    """When this silo works, by its own clock, such as "20:00-06:00"; at other times a run waits."""
    devices: Annotated[tuple[DeviceName, ...], Field(max_length=MOST_NAMED)] | None = None
    """Where a run may train: cpu, cuda, cuda:1."""
    max_model_mb: Some | None = None
    """Size of a model, at most, in MB of all its tensors; a round needs four to six times of it."""
    clip: Some | None = None
    """Norm of an update, at most: a longer one is made shorter before it leaves."""
    noise: Some | None = None
    """Gaussian noise that is added to each entry of an update, as a part of `clip`."""
    own_order: bool = False
    """Draw the order of the samples with a secret of this silo, so that the coordinator cannot know
    which samples are in a step. Its updates can be made again with that secret only."""
    approve: Literal["auto", "ask"] = "auto"
    """ask: each run waits until `domo-client approve RUN` at this silo."""
    approve_within_s: float = Field(default=86_400.0, gt=0, le=31_536_000, allow_inf_nan=False)
    """How long a run waits for that before it is declined."""

    @model_validator(mode="after")
    def _noise_of_a_norm(self) -> Self:
        if self.noise is not None and self.clip is None:
            raise ValueError("noise is a part of clip: give clip too")
        return self

    @property
    def looks_at_model(self) -> bool:
        """Whether some rule is about the model."""
        return any(rule is not None for rule in (self.layouts, self.max_model_mb, self.clip))

    def is_open_at(self, now: datetime) -> bool:
        """Whether this silo works at a time of its own clock."""
        if self.hours is None:
            return True
        a, b, c, d = map(int, HOURS.fullmatch(self.hours).groups())  # type: ignore[union-attr]
        begin, end, at = time(a, b), time(c, d), now.time()
        return begin <= at < end if begin < end else at >= begin or at < end


OPEN_POLICY = Policy(
    min_batch=1,
    min_samples_per_update=1,
    min_silos=1,
    max_rounds_a_day=MOST,
    max_tests_a_day=MOST,
)
"""Nothing is refused that a run's configuration says: for public data and for trials."""


class Chosen(NamedTuple):
    """A policy, and where it is from.

    Attributes:
        policy: What holds.
        source: The file, or a word or two.
        is_open: Whether nothing is refused because these are trials, or public data.
    """

    policy: Policy
    source: str
    is_open: bool = False

    @classmethod
    def of(cls, given: str | Path | None, folder: Path | None, public_data: bool = False) -> Self:
        """What applies: what was given, else the file in the state folder, else the default.

        Args:
            given: A file, `default` or `open`; None: nothing was given.
            folder: The silo's state folder, where a policy.toml is looked for.
            public_data: Whether it trains on a part of a public dataset, which hides nothing.

        Raises:
            ConfigError: A file cannot be read, or a key of it will not do.
        """
        if given == DEFAULT:
            return cls(Policy(), "the default")
        if given == OPEN:
            return cls(OPEN_POLICY, "open, as was given", True)
        own = folder / FILE if folder is not None else None
        path = Path(given) if given is not None else own if own and own.exists() else None
        if path is not None:
            return cls(validate(Policy, load_toml(path), path), str(path))
        if public_data:
            return cls(OPEN_POLICY, "open, as the data are public (--shard)", True)
        return cls(Policy(), "the default")
