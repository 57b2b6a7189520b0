"""From a configuration to a coordinator that serves.

Torch is loaded once the state folder and the database are taken, and the ports are free: what is
wrong with those is said before.
"""

import asyncio
from collections.abc import Callable, Sequence

from domo.api.schema import RunState
from domo.run_config import RunConfig
from domo_server.config import ServerConfig, name_runs
from domo_server.integrations.trackers import make_writers
from domo_server.startup import Started, hold


async def serve(
    config: ServerConfig,
    runs: Sequence[RunConfig],
    *,
    exit_when_done: bool = False,
    on_started: Callable[[Started], None] = lambda started: None,
    stop: asyncio.Event | None = None,
) -> list[RunState]:
    """Serve until SIGINT or SIGTERM, or until `stop` is set.

    Args:
        config: The [server] table.
        runs: The [[runs]], queued unless the state folder has them already.
        exit_when_done: Stop when all of `runs` have ended.
        on_started: Called once everything listens.
        stop: Ends it where given; signals and settings of the process are then the caller's.

    Returns:
        How far each of `runs` has come.

    Raises:
        ConfigError: TLS files, a run, a tracker or a provider cannot be used.
        PortError: A port is taken.
        StateError: The state folder or the database cannot be used.
    """
    named = name_runs(runs)
    writers = make_writers(config.trackers)
    async with hold(config) as held:
        from domo_server.dashboard.access.oidc import make_provider
        from domo_server.wiring import run

        provider = make_provider(config.oidc, config.dashboard_url)
        return await run(
            held,
            config,
            named,
            writers,
            provider,
            exit_when_done=exit_when_done,
            on_started=on_started,
            stop=stop,
        )
