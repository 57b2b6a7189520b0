"""Runs that are submitted: what is checked of them, and the names that they get."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from domo.api.schema import ENDED
from domo.errors import ConfigError, TaskError
from domo.ops.config_file import validate
from domo.run_config import RunConfig, sort_roster
from domo.tasks import check_images, is_named
from domo_server.events.notifier import Changes
from domo_server.store.rows import RunRow
from domo_server.store.store import Store

log = logging.getLogger(__name__)


class Submissions:
    """Puts runs into the queue of the database.

    Args:
        store: Where they are recorded.
        state_dir: The coordinator's, for texts.
        changes: Told once one is there.
    """

    def __init__(self, store: Store, state_dir: Path, changes: Changes):
        self._store, self._state_dir, self._changes = store, state_dir, changes
        self._naming = asyncio.Lock()

    async def submit(self, config: RunConfig | Mapping[str, Any]) -> RunRow:
        """Queue a run; returns its row.

        Raises:
            ConfigError: A field is wrong, the name is taken, or x_0 cannot be made.
        """
        if not isinstance(config, RunConfig):
            config = validate(RunConfig, dict(config), "run")
        check_submission(config)
        async with self._naming:  # two at once must not take one name, or one number
            return await self._queue(await self._name(config), config)

    async def _name(self, config: RunConfig) -> str:
        """A name that is free: the one given, or the title, numbered."""
        name, number = config.title, 2
        while await asyncio.to_thread(self._store.run_by_name, name):
            if config.name is not None:
                raise ConfigError.at(
                    "name", f"there is a run named {name!r} already; give this one another name"
                )
            name, number = f"{config.title}-{number}", number + 1
        return name

    async def submit_once(self, config: RunConfig, name: str) -> RunRow:
        """Queue a run of the configuration file, unless it is there from an earlier start.

        Raises:
            ConfigError: As `submit`, or the run was started with another configuration.
        """
        row = await asyncio.to_thread(self._store.run_by_name, name)
        if row is None:
            check_submission(config)
            return await self._queue(name, config)
        old = row.run_config()  # not by digest: versions may differ in it
        differ = [f for f in RunConfig.model_fields if getattr(old, f) != getattr(config, f)]
        if differ:
            raise ConfigError(
                f"the run {name!r} in {self._state_dir} was started with other settings "
                f"({', '.join(differ)}); give the changed run another name, or use another "
                "--state-dir"
            )
        if row.state in ENDED:
            log.info("[%s] has ended already: %s", row.run_id, row.state.lower())
        return row

    async def _queue(self, name: str, config: RunConfig) -> RunRow:
        values = (name, config.model_dump(mode="json"), config.digest)
        row = await asyncio.to_thread(self._store.create_run, *values)
        log.info("[%s] queued: %s on %s", row.run_id, config.method, config.task)
        self._changes.moved()  # a run is in the queue
        return row


def check_submission(config: RunConfig) -> None:
    """What a coordinator needs beyond a valid configuration.

    Raises:
        ConfigError: Nobody is said to take part, a table lacks a silo, or x_0 cannot be made here.
    """
    if config.num_silos is None and config.roster is None:
        raise ConfigError.at(
            "num_silos", "say who takes part: num_silos = 4, or roster = ['site-a', 'site-b']"
        )
    if config.roster is not None:
        config.check_tables(sort_roster(config.roster))
    try:
        check_images(config.task, config.images)
    except TaskError as error:
        raise ConfigError.at("images", str(error)) from None
    if config.initial_model:
        path = Path(config.initial_model)
        try:
            there = path.is_file()
        except (OSError, ValueError):  # no file can be called so
            there = False
        if not there:
            where = "" if path.is_absolute() else f" in {Path.cwd()}, where the coordinator runs"
            raise ConfigError.at("initial_model", f"initial_model: there is no file {path}{where}")
    elif not is_named(config.task):
        if ":" not in config.task:
            raise ConfigError.at(
                "task", f"there is no task {config.task!r}; `domo tasks` lists those there are"
            )
        raise ConfigError.at(
            "task",
            f"the task {config.task} is code of your own, which the coordinator does not run: make "
            f"the initial model with `domo init {config.task} --seed {config.seed} --out "
            "x0.safetensors` and set initial_model to that file",
        )
