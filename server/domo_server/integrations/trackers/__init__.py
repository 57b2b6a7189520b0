"""Runs in TensorBoard and MLflow: written beside the coordinator, from what its dashboard reads.

No round waits for a tracker. Each has a thread of its own; what it refuses is said once, and tried
again with the next round.
"""

from importlib.util import find_spec

from domo.errors import ConfigError
from domo_server.config import TrackersConfig
from domo_server.integrations.trackers.follow import Follower, Writer
from domo_server.integrations.trackers.to_mlflow import MlflowWriter
from domo_server.integrations.trackers.to_tensorboard import TensorBoardWriter

__all__ = ["Follower", "Writer", "make_writers"]


def make_writers(config: TrackersConfig | None) -> list[Writer]:
    """The trackers that are configured; nothing is imported or opened yet.

    Raises:
        ConfigError: One is not installed; says how to get it.
    """
    writers: list[Writer] = []
    if config is not None and config.tensorboard_dir is not None:
        _need("tensorboard", "tensorboard_dir")
        writers.append(TensorBoardWriter(config.tensorboard_dir))
    if config is not None and config.mlflow_uri is not None:
        _need("mlflow", "mlflow_uri")
        writers.append(MlflowWriter(config.mlflow_uri, config.mlflow_experiment))
    return writers


def _need(extra: str, key: str) -> None:
    if find_spec(extra) is None:
        raise ConfigError(
            f"server.trackers.{key}: {extra} is not installed: "
            f"pip install 'domo-federated[{extra}]', or leave {key} out"
        )
