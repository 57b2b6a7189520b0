"""What a simulation hands out: a record of each model, and where the run ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from domo.errors import ConfigError
from domo.history.history import History
from domo.history.records import Round, RunFacts, SiloRound, Test
from domo.metrics.names import direction
from domo.model.layout import Layout, Section
from domo.model.model_file import save_model
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.simulating.state import Computed, ModelRecord, RoundRecord, ServerState

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class SimulationResult:
    """Where a run ended: x_R, m_R, mbar_R, all other sections, x_{R-1}, a record of each x_i.

    `best` is the best model as a coordinator keeps it, `best_index` which it is, `best_value` its
    number of `primary_metric`. `stopped` says why the run ended before its last round. `history`
    are the records as the simulator made them; `to_history` has the same numbers with units, as
    tables and as a picture, and `to_pandas`, `plot`, ... are its. `mode` says how silos were
    computed: `exact`, one after another with the bytes of a deployment, or `batched`, which is the
    same within float tolerance, not the same bytes.
    """

    layout: Layout
    x: Tensor
    m: Tensor
    mbar: Tensor | None
    buffers: dict[Section, Tensor]
    history: list[ModelRecord]
    x_prev: Tensor | None = None
    primary_metric: str | None = None
    best: ServerState | None = None
    best_index: int | None = None
    best_value: float | None = None
    stopped: str | None = None
    facts: RunFacts | None = None
    mode: Computed = "exact"
    v: Tensor | None = None
    c: Tensor | None = None

    def __repr__(self) -> str:
        """One line, as a notebook shows what a cell gives."""
        last = self.history[-1].metrics
        shown = sorted(last, key=lambda name: name != self.primary_metric)[:3]
        numbers = ", ".join(f"{name} {last[name]:.4g}" for name in shown)
        best = (
            "" if self.best_index is None else f"; best {self.primary_metric}: x_{self.best_index}"
        )
        rounds = counted(len(self.history) - 1, "round")
        rounds += "" if self.mode == "exact" else f" ({self.mode})"
        return f"<SimulationResult: {rounds}, {numbers or 'no test numbers'}{best}>"

    @property
    def checkpoint_digest(self) -> str:
        """The digest that a coordinator records with its last checkpoint, of all that is in it."""
        x, m, v, c = self.x, self.m, self.v, self.c
        return ServerState(x, m, self.buffers, self.mbar, self.x_prev, v=v, c=c).digest

    @property
    def best_digest(self) -> str | None:
        """The same of the best model's checkpoint; None: none was judged."""
        return None if self.best is None else self.best.digest

    @property
    def best_vectors(self) -> dict[Section, Tensor]:
        """All sections of the best model, as `vectors`.

        Raises:
            ConfigError: None was judged.
        """
        if self.best is None:
            raise ConfigError("no model of this run was tested by what it is judged by")
        fixed = {s: self.buffers[s] for s in (Section.FROZEN, Section.PRIVATE)}
        return {Section.TRAINABLE: self.best.x, **self.best.buffers, **fixed}

    @property
    def vectors(self) -> dict[Section, Tensor]:
        """All sections, as `model_file.save_model` takes them."""
        return {Section.TRAINABLE: self.x, **self.buffers}

    @property
    def untested(self) -> str:
        """Why no model has test numbers; empty: some have."""
        if any(r.metrics for r in self.history):
            return ""
        return (
            "no model has test numbers: no silo has test data, evaluate_every is 0, or all are NaN"
        )

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """x_R and all else that the model has, for `load_state_dict`."""
        return self.layout.state_dict(self.vectors)

    def to_history(self) -> History:
        """The run as a coordinator's history would have it; what only a coordinator sees is None.

        Losses and times of single silos and bytes on the wire are not measured here.
        """
        facts = self.facts or RunFacts()
        metric = self.primary_metric or facts.primary_metric
        return history_of(
            self.history,
            replace(
                facts,
                mode=self.mode,
                detail=self.stopped or "",
                digest=self.checkpoint_digest,
                primary_metric=metric,
                better=facts.better or (direction(metric) if metric else None),
                best_index=self.best_index,
                best_value=self.best_value,
            ),
        )

    def to_pandas(self) -> "DataFrame":
        """`History.to_pandas` of `to_history`: a row for each model and the round that made it."""
        return self.to_history().to_pandas()

    def silos_to_pandas(self) -> "DataFrame":
        """`History.silos_to_pandas` of `to_history`: a row for each silo and model."""
        return self.to_history().silos_to_pandas()

    def plot(
        self, metric: str | None = None, ax: "Axes | None" = None, *, silos: bool = False
    ) -> "Axes":
        """`History.plot` of `to_history`: a number over the rounds."""
        return self.to_history().plot(metric, ax, silos=silos)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_history()._repr_html_()

    @property
    def accuracies(self) -> list[float]:
        """Test accuracy of each server model that was tested, from x_0 on."""
        return [r.metrics["accuracy"] for r in self.history if "accuracy" in r.metrics]

    def save(self, path: Path | str, *, best: bool = False) -> None:
        """Write x_R, or the best model, as a safetensors file that a run could start from."""
        save_model(Path(path), self.layout, self.best_vectors if best else self.vectors)


def facts_of(config: RunConfig, mode: Computed = "exact") -> RunFacts:
    """What a configuration says of a run as a whole.

    Args:
        config: Of the run.
        mode: How it was computed.
    """
    metric = config.primary_metric
    return RunFacts(
        title=config.title,
        method=config.method,
        task=config.task,
        seed=config.seed,
        num_silos=config.expected_silos,
        num_rounds=config.num_rounds,
        mode=mode,
        primary_metric=metric,
        better=None if metric is None else config.better_of(metric),
    )


def history_of(records: Sequence[ModelRecord], facts: RunFacts) -> History:
    """Records of a simulation as a history.

    Args:
        records: From x_0 on. A round in which no silo took part has made nothing.
        facts: What is said of the run as a whole.
    """
    rounds, before = [], None
    for record in records:
        made_by = record.made_by
        if made_by is not None and made_by is not before:
            logged = dict(made_by.train_metrics)
            rounds.append(
                Round(
                    record.model_index - 1,
                    _parts(made_by),
                    made_by.local_lr,
                    made_by.train_loss,
                    logged,
                )
            )
        before = made_by
    tests = [
        Test(r.model_index, dict(r.metrics), {k: dict(v) for k, v in r.silos.items()}, r.notes)
        for r in records
        if r.metrics or r.silos
    ]
    return History(facts, tuple(rounds), tuple(tests))


def _parts(made_by: RoundRecord) -> tuple[SiloRound, ...]:
    """What each participant did; a run that an older version left half done knows less of it."""
    names, num = made_by.participants, len(made_by.participants)
    weights = made_by.weights or (None,) * num
    logged = made_by.silo_metrics or ({},) * num
    return tuple(
        SiloRound(name, steps, own.get("loss"), dict(own), weight)
        for name, steps, own, weight in zip(names, made_by.steps, logged, weights, strict=True)
    )
