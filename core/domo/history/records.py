"""What a history is made of: facts of the run, rounds with their silos, tests of models."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domo.metrics.names import Better


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is said of a run as a whole; None: not known.

    Attributes:
        title: The run's name, or one made of method and task.
        method: As `domo methods` lists it.
        task: A named task, or `module:Class`.
        seed: Of everything that is random.
        num_silos: K.
        num_rounds: R, as it was asked for.
        mode: How it was computed: `exact` for the simulator with the bytes of a federation,
            `batched` for the one that is the same within float tolerance, `coordinator` for a
            federation.
        state: FINISHED, or how far the coordinator is with it.
        detail: Why it ended early, what it waits for; may be empty.
        digest: xxh3-128 over the last checkpoint. Two runs with equal digests ended with the same
            bytes, wherever they were computed.
        primary_metric: What its models are judged by.
        better: Which way that is better.
        best_index: i of the best model x_i.
        best_value: Of the primary metric, of that model.
        run_id: At its coordinator.
    """

    title: str = "run"
    method: str | None = None
    task: str | None = None
    seed: int | None = None
    num_silos: int | None = None
    num_rounds: int | None = None
    mode: str = "exact"
    state: str = "FINISHED"
    detail: str = ""
    digest: str | None = None
    primary_metric: str | None = None
    better: Better | None = None
    best_index: int | None = None
    best_value: float | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class SiloRound:
    """One silo's part in one round; None: nobody measured it.

    Attributes:
        silo_id: Its name.
        num_steps: P_k, local steps.
        train_loss: Mean over its steps.
        train_metrics: What its loop logged beside the loss.
        weight: omega_k, raw.
        update_bytes: Of its update on the wire.
        update_norm: Euclidean norm of d_k.
        cosine: Of d_k to the server momentum before the round, -1 to 1.
        fetching_s: Seconds in which it fetched x_r.
        testing_s: Seconds in which it tested x_r.
        training_s: Seconds of its local steps.
        uploading_s: Seconds in which it sent its update.
        waiting_s: Seconds of the round in which it had nothing to do.
        left_out: Why its update is not in the round's model; None: it is.
    """

    silo_id: str
    num_steps: int | None = None
    train_loss: float | None = None
    train_metrics: Mapping[str, float] = field(default_factory=dict)
    weight: float | None = None
    update_bytes: int | None = None
    update_norm: float | None = None
    cosine: float | None = None
    fetching_s: float | None = None
    testing_s: float | None = None
    training_s: float | None = None
    uploading_s: float | None = None
    waiting_s: float | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One closed round; None: nobody measured it.

    Attributes:
        round_index: r, from 0.
        silos: Those sampled for it, in roster order: who took part, then who was left out.
        local_lr: eta of the round.
        train_loss: Weighted mean over the participants.
        train_metrics: Likewise what their loops logged beside the loss.
        duration_s: Seconds from its opening to the next model, without pauses.
        drift: Spread of the updates around their mean, relative to it.
    """

    round_index: int
    silos: tuple[SiloRound, ...]
    local_lr: float
    train_loss: float | None
    train_metrics: Mapping[str, float] = field(default_factory=dict)
    duration_s: float | None = None
    drift: float | None = None

    @property
    def participants(self) -> tuple[str, ...]:
        """Silos whose updates are in the model that the round made."""
        return tuple(s.silo_id for s in self.silos if s.left_out is None)

    @property
    def steps(self) -> tuple[int, ...]:
        """P_k of each participant."""
        return tuple(s.num_steps or 0 for s in self.silos if s.left_out is None)

    @property
    def update_bytes(self) -> int | None:
        """Of all updates on the wire; None: not measured."""
        sizes = [s.update_bytes for s in self.silos if s.left_out is None]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None


@dataclass(frozen=True, slots=True)
class Test:
    """One server model x_i, tested.

    Attributes:
        model_index: i.
        metrics: Over the test data of all silos, pooled: exact, no mean of means.
        silos: Each silo's own numbers.
        notes: Of metrics that are not what their names say.
    """

    __test__ = False  # no test of pytest's

    model_index: int
    metrics: Mapping[str, float]
    silos: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
