"""A database as an older version of domo left it."""

from pathlib import Path

from alembic import command
from alembic.config import Config

import domo_server.store.migrations
from domo_server.store.database import connect


def take_back(url: str, version: str) -> None:
    """Undo migrations until this one is the newest."""
    config = Config()
    config.set_main_option("script_location", str(Path(*domo_server.store.migrations.__path__)))
    engine = connect(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, version)
    engine.dispose()
