"""What tests of models come to, as `domo.api.schema` shows it: numbers, spread, tables to draw."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MetricPoint(_Frozen):
    """The server model x_{model_index} tested over the federation: exact means."""

    model_index: int
    metrics: Mapping[str, float] = Field(examples=[{"accuracy": 0.91, "loss": 0.3}])
    num_silos: int
    num_samples: float


class SiloTest(_Frozen):
    """A silo's own numbers of one model."""

    silo_id: str
    metrics: Mapping[str, float] = Field(examples=[{"accuracy": 0.88, "loss": 0.4}])
    num_samples: float


class Spread(_Frozen):
    """How far the silos' numbers of one metric are apart."""

    lowest: float
    highest: float
    std: float
    """Standard deviation over the silos, each counted once."""
    worst: str | None = None
    """The silo; None: nobody knows which way the metric is better."""


class ModelTest(MetricPoint):
    """The same with each silo's own numbers."""

    silos: Sequence[SiloTest]
    spread: Mapping[str, Spread]


class MetricTable(_Frozen):
    """Counts over all silos, as a page draws them."""

    name: str
    """As `evaluate` gives it."""
    kind: str = Field(examples=["confusion"])
    """confusion, auc, average_precision, calibration, regression."""
    labels: Sequence[str] = ()
    """Names of the classes; empty: their numbers."""
    matrix: Sequence[Sequence[float]] | None = None
    """Confusion: a row for each true class, a column for each that the model says."""
    curves: Mapping[str, Sequence[Sequence[float]]] | None = None
    """Points (x, y) by class, "" of the only one. auc: false and true positive rate;
    average_precision: recall and precision; calibration: mean confidence and accuracy."""
    counts: Sequence[float] | None = None
    """Calibration: samples of each point."""
    numbers: Mapping[str, float]
    """What it comes to, by name."""
    max_error: float | None = None
    """auc: how far it can be from that of the scores themselves, at the very most."""


class ModelTables(_Frozen):
    """The tables of one model."""

    model_index: int
    tables: Sequence[MetricTable]
