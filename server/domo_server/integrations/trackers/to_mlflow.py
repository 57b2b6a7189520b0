"""Runs in MLflow: one of its runs for each of ours, found again by its tags."""

import importlib
import os
from collections.abc import Sequence
from typing import Any

from domo.api.schema import ENDED, RunDetail
from domo_server.integrations.trackers.points import Point, seconds, settings_of

RUN_TAG, CREATED_TAG, COMPLETE_TAG = "domo.run_id", "domo.created_at", "domo.complete"
MAX_METRICS = 1000
"""Of one call, as MLflow limits it."""
ENDS = {"FINISHED": "FINISHED", "FAILED": "FAILED", "STOPPED": "KILLED"}
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}
"""Of MLflow, unless the environment has others: it sends nothing elsewhere, and gives up soon."""


class MlflowWriter:
    """Writes the points that MLflow does not have yet.

    Args:
        uri: Of its server, or of a database.
        experiment: Made if need be.
    """

    name = "MLflow"

    def __init__(self, uri: str, experiment: str):
        self.uri, self._experiment = uri, experiment
        self._client: Any = None
        self._known: dict[str, tuple[str, set[tuple[str, int]]]] = {}

    def prepare(self) -> None:
        """Import MLflow."""
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        importlib.import_module("mlflow.tracking")

    def write(self, run: RunDetail, points: Sequence[Point]) -> None:
        """Write what is not there yet."""
        self.prepare()
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        if self._client is None:
            self._client = MlflowClient(tracking_uri=self.uri)
        known = self._known.pop(run.run_id, None) or self._find(run)
        if known is None:
            return
        its_id, there = known
        new = [p for p in points if (_plain(p.name), p.step) not in there]
        for lo in range(0, len(new), MAX_METRICS):
            part = new[lo : lo + MAX_METRICS]
            metrics = [Metric(_plain(p.name), p.value, int(1000 * p.at_s), p.step) for p in part]
            self._client.log_batch(its_id, metrics=metrics)
            there |= {(m.key, m.step) for m in metrics}
        if run.state in ENDED:
            at = int(1000 * seconds(run.finished_at)) if run.finished_at else None
            self._client.set_terminated(its_id, ENDS[run.state], at)
            self._client.set_tag(its_id, COMPLETE_TAG, "true")
        else:
            self._known[run.run_id] = its_id, there

    def _find(self, run: RunDetail) -> tuple[str, set[tuple[str, int]]] | None:
        """MLflow's run, made if need be, and what it has; None if that is everything."""
        from mlflow.entities import Param

        client = self._client
        found = client.get_experiment_by_name(self._experiment)
        place = found.experiment_id if found else client.create_experiment(self._experiment)
        tags = {RUN_TAG: run.run_id, CREATED_TAG: run.created_at}
        wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        its = next(iter(client.search_runs([place], wanted, max_results=1)), None)
        if its is None:
            began = int(1000 * seconds(run.started_at or run.created_at))
            its = client.create_run(place, began, tags, run_name=run.run_id)
        if COMPLETE_TAG in its.data.tags:
            return None
        its_id = its.info.run_id
        settings = {k: str(v) for k, v in settings_of(run).items() if k not in its.data.params}
        if settings:
            client.log_batch(its_id, params=[Param(*item) for item in settings.items()])
        histories = [client.get_metric_history(its_id, name) for name in its.data.metrics]
        return its_id, {(m.key, m.step) for history in histories for m in history}


def _plain(name: str) -> str:
    """A name as MLflow allows it; those of tests come from silos."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-. :/") else "_" for c in name)
