"""Wiring: database, coordinator, gRPC server, dashboard; start and orderly stop."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import grpc
import grpc.aio
import torch
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from domo import process_memory
from domo.certificates import check_pair
from domo.errors import ConfigError, PortError
from domo.run_config import RunConfig
from domo.state_dir import lock_folder
from domo_proto.channel import SERVER_OPTIONS, is_loopback, server_credentials
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server.config import DEFAULT_DASHBOARD, ServerConfig, admin_token, name_runs
from domo_server.coordinator import Coordinator
from domo_server.dashboard import DashboardServer, create_app
from domo_server.metrics import CoordinatorMetrics
from domo_server.read_model import CoordinatorView
from domo_server.servicer import FederationServicer
from domo_server.status import ENDED
from domo_server.store import Store, open_database
from domo_server.trackers import Follower, make_writers
from domo_server.transfer import DataServicer, data_handlers
from domo_server.webhooks import Webhooks

log = logging.getLogger(__name__)

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
PORTS_TRIED = 50


class Started(NamedTuple):
    """Where the coordinator listens.

    Attributes:
        grpc_address: host:port for silos.
        dashboard_url: The page.
        login_url: Logs the admin in.
        run_ids: The runs of the configuration file.
    """

    grpc_address: str
    dashboard_url: str
    login_url: str
    run_ids: Sequence[str]


async def serve(
    config: ServerConfig,
    runs: Sequence[RunConfig],
    *,
    exit_when_done: bool = False,
    on_started: Callable[[Started], None] = lambda started: None,
    stop: asyncio.Event | None = None,
) -> bool:
    """Serve until SIGINT or SIGTERM, or until `stop` is set.

    Args:
        config: The [server] table.
        runs: The [[runs]], queued unless the state folder has them already.
        exit_when_done: Stop when all of `runs` have ended.
        on_started: Called once everything listens.
        stop: Ends it where given; signals are then left to the caller.

    Returns:
        Whether no run of `runs` failed.

    Raises:
        ConfigError: A port is taken, a run cannot be queued, or a tracker is not installed.
        StateError: The state folder or the database cannot be used.
    """
    torch.set_num_threads(1)  # two threads contend with the transport
    process_memory.prepare()
    named = name_runs(runs)
    writers = make_writers(config.trackers)
    async with contextlib.AsyncExitStack() as ending:
        ending.enter_context(lock_folder(config.state_dir, "domo-server"))
        durable = config.durability == "power"
        store = Store(await asyncio.to_thread(open_database, config.database_url), not durable)
        ending.callback(store.close)
        coordinator = Coordinator(
            store,
            config.state_dir,
            config.report_interval_s,
            config.long_poll_s,
            durable,
            stall_after_s=config.stall_after_s,
        )
        ending.push_async_callback(coordinator.events.close)
        page_socket = ending.enter_context(bind_dashboard(config.dashboard))
        server, address, health_servicer = await start_grpc(config, coordinator)
        ending.push_async_callback(server.stop, 1.0)
        rows = [await coordinator.submit_once(run, name) for name, run in named]
        run_ids = [row["run_id"] for row in rows]
        view = CoordinatorView(coordinator, address, config.tls is not None)
        hooks = Webhooks(config.webhooks, store, coordinator.events, view, config.dashboard_url)
        ending.push_async_callback(hooks.close)
        token = admin_token(config.state_dir)
        host, port = page_socket.getsockname()[:2]
        local = is_loopback(f"{host}:{port}")
        metrics = CoordinatorMetrics(coordinator, view)
        app = create_app(view, view, token, LOOPBACK_HOSTS if local else None, metrics.text)
        page = DashboardServer(app, host, port)
        page_task = asyncio.create_task(page.serve(sockets=[page_socket]))
        url = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"
        if config.tls is not None:
            coordinator.expiry.take_own(config.tls.cert)
        watch = asyncio.create_task(coordinator.expiry.watch(), name="certificates")
        ending.callback(watch.cancel)
        for follower in [
            Follower(view, w, partial(coordinator.events.say, "tracker")) for w in writers
        ]:
            follower.start()
            ending.push_async_callback(follower.close)
        await hooks.start()
        coordinator.start()
        on_started(Started(address, url, f"{url}/login?token={token}", run_ids))
        await _until_stopped(coordinator, run_ids if exit_when_done else None, stop)
        log.info("stopping: finishing what is being written")
        await health_servicer.enter_graceful_shutdown()
        await coordinator.shutdown()
        page.should_exit = True
        await asyncio.gather(server.stop(1.0), page_task)
        ends = [await asyncio.to_thread(store.run, run_id) for run_id in run_ids]
        return all(row is None or row["state"] not in ("FAILED", "STOPPED") for row in ends)


async def start_grpc(
    config: ServerConfig, coordinator: Coordinator
) -> tuple[grpc.aio.Server, str, health.aio.HealthServicer]:
    """Listen for silos, with the health and reflection services.

    Raises:
        PortError: The port is taken.
        ConfigError: TLS files cannot be read, or do not belong together.
    """
    server = grpc.aio.server(options=SERVER_OPTIONS)
    servicer = FederationServicer(coordinator)
    pb_grpc.add_FederationServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((data_handlers(DataServicer(coordinator)),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    name = pb.DESCRIPTOR.services_by_name["Federation"].full_name
    reflection.enable_server_reflection(
        (name, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    credentials = server_credentials(config.tls.files) if config.tls else None
    if config.tls:  # grpc does not say what is wrong with them
        for found in check_pair(config.tls.cert, config.tls.key):
            if found.state == "problem":
                raise ConfigError(f"tls: {found.text}; {found.mend}")
    try:
        if credentials is not None:
            port = server.add_secure_port(config.listen, credentials)
        else:
            port = server.add_insecure_port(config.listen)
    except RuntimeError:
        raise PortError(
            f"cannot listen on {config.listen}: the port is in use, or the address is not this "
            "machine's. Choose another with --listen"
        ) from None
    await server.start()
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, f"{config.listen.rpartition(':')[0]}:{port}", checks


def bind_dashboard(address: str | None) -> socket.socket:
    """A bound socket for the dashboard: the address given, or the next free port from 8080 on.

    Raises:
        PortError: The address given is taken, or nothing is free.
    """
    host, _, port = (address or DEFAULT_DASHBOARD).rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [int(port)] if address else range(int(port), int(port) + PORTS_TRIED)
    for candidate in ports:
        # asyncio turns Nagle's waiting off only where the protocol is named
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host.strip("[]"), candidate))
            sock.listen()
        except OSError as error:
            sock.close()
            reason = error.strerror
            continue
        return sock
    what = address or f"{host}:{port}..{int(port) + PORTS_TRIED - 1}"
    raise PortError(
        f"the dashboard cannot listen on {what}: {reason}. Choose another with --dashboard"
    )


async def _until_stopped(
    coordinator: Coordinator, run_ids: Sequence[str] | None, stop: asyncio.Event | None
) -> None:
    if stop is None:
        stop = asyncio.Event()
        for sig in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    waiter = asyncio.create_task(stop.wait())
    while not stop.is_set():
        if run_ids is not None:
            rows = [await asyncio.to_thread(coordinator.store.run, r) for r in run_ids]
            if all(row is None or row["state"] in ENDED for row in rows):
                await coordinator.linger()
                break
        changed = asyncio.create_task(coordinator.broadcast.changed(1.0))
        await asyncio.wait({waiter, changed}, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
    waiter.cancel()
