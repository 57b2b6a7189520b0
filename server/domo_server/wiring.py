"""Wiring: coordinator, rpcs, dashboard and what watches them; start and orderly stop."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import grpc.aio
import torch
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from domo.api.schema import ENDED, RunState
from domo.errors import TransportError
from domo.ops.addresses import split
from domo.ops.terminal import at_hangup
from domo.run_config import RunConfig
from domo_proto.channel import SERVER_OPTIONS
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server import allocator
from domo_server.config import ServerConfig
from domo_server.coordinator.coordinator import Coordinator
from domo_server.dashboard import DashboardServer, create_app
from domo_server.dashboard.access.connections import MOST_NEW, NEW_PER_S, Listener
from domo_server.dashboard.access.gate import cookie_name
from domo_server.dashboard.access.peer import reading_open_to
from domo_server.events import kinds
from domo_server.identity.own import Own, nameless, nobody
from domo_server.integrations.trackers import Follower, Writer
from domo_server.integrations.webhooks import Webhooks
from domo_server.monitor.descriptors import raise_limit, shares
from domo_server.monitor.monitor import Watch
from domo_server.people.local import keep_url
from domo_server.people.people import People
from domo_server.people.person import THE_ADMIN
from domo_server.rpc.control import FederationServicer
from domo_server.rpc.data import DataServicer, data_handlers
from domo_server.rpc.handshakes import Handshakes
from domo_server.rpc.services import Health, Reflection
from domo_server.silos.rates import Rates
from domo_server.startup import (
    Held,
    Started,
    dashboard_hosts,
    dashboard_url,
    exposed,
    is_proxied,
    taken,
    why_taken,
)
from domo_server.store.lock import KEEP_S, AdvisoryLock
from domo_server.store.people import PeopleRows
from domo_server.store.store import Store
from domo_server.view.metrics import CoordinatorMetrics
from domo_server.view.view import CoordinatorView

if TYPE_CHECKING:
    from domo_server.dashboard.access.oidc.provider import Provider

log = logging.getLogger(__name__)

STOP_S = 1.0
"""How long calls of silos may still take when the coordinator stops; they are made again."""


async def run(
    held: Held,
    config: ServerConfig,
    named: Sequence[tuple[str, RunConfig]],
    writers: Sequence[Writer],
    provider: "Provider | None",
    *,
    exit_when_done: bool,
    on_started: Callable[[Started], None],
    stop: asyncio.Event | None,
) -> list[RunState]:
    """`domo_server.app.serve`, with what it has taken.

    Args:
        held: State folder, database and ports.
        config: The [server] table.
        named: The [[runs]] with their names.
        writers: The trackers.
        provider: Where people may log in; None: nowhere.
        exit_when_done, on_started, stop: As there.

    Raises:
        StateError: Another coordinator has taken the database meanwhile.
    """
    if stop is None:  # this process is the coordinator, and nobody else's
        torch.set_num_threads(1)  # two threads contend with the transport
        allocator.prepare()
        raise_limit()
        stop = _at_signals()
    async with contextlib.AsyncExitStack() as ending:
        coordinator = Coordinator(
            held.store,
            config.state_dir,
            config.report_interval_s,
            config.long_poll_s,
            config.durability == "power",
        )
        ending.push_async_callback(coordinator.events.close)
        await asyncio.to_thread(coordinator.guard.admitted.load)
        tls = config.tls_in_use
        if tls is not None and held.credentials is not None:
            own = Own(
                config,
                held.credentials,
                coordinator.guard,
                partial(coordinator.expiry.take_own, tls.cert),
            )
            coordinator.certifier.authority = own.authority
            renewing = asyncio.create_task(own.watch(), name="own certificate")
            ending.callback(renewing.cancel)
        server, address, health_servicer = await _serve_silos(config.listen, held, coordinator)
        ending.push_async_callback(server.stop, STOP_S)
        if held.credentials is not None:
            port = split(address)[1]
            handshakes = Handshakes(port, coordinator.counters, coordinator.events.repeated)
            held.credentials.on_handshake = handshakes.begun
            coordinator.guard.heard = handshakes.heard
            refusals = asyncio.create_task(handshakes.watch(), name="handshakes")
            ending.callback(refusals.cancel)
        rows = [await coordinator.submissions.submit_once(run, name) for name, run in named]
        run_ids = [row.run_id for row in rows]
        if words := nameless(config):
            coordinator.events.say(kinds.NAMELESS, words)
        elif words := await asyncio.to_thread(nobody, coordinator.guard, held.store):
            log.warning("%s", words)
        stalls = Watch(coordinator, config.stall_after_s)
        view = CoordinatorView(coordinator, stalls, address, tls is not None)
        hooks = Webhooks(
            config.webhooks, held.store, coordinator.events, view, config.dashboard_url
        )
        ending.push_async_callback(hooks.close)
        ending.callback(coordinator.events.hurry)  # before: webhooks wait for what is recorded
        metrics = CoordinatorMetrics(coordinator, view)
        hosts = dashboard_hosts(held.page_socket, config)
        people = People(PeopleRows(held.store))
        ending.callback(people.close)
        await asyncio.to_thread(people.start, held.token)
        app = create_app(
            view,
            view,
            people,
            hosts,
            metrics.text,
            config.trusted_proxies,
            open_to=reading_open_to(
                config.open_reading,
                hosts is not None and hosts.is_local and not is_proxied(config),
            ),
            cookie_name=cookie_name(str(config.state_dir.resolve())),
            events=coordinator.events,
            provider=provider,
        )
        if provider is not None:
            ending.push_async_callback(provider.close)
        host, port = held.page_socket.getsockname()[:2]
        page = DashboardServer(app, host, port, held.page_tls)
        rates = Rates(MOST_NEW, NEW_PER_S)
        listener = ending.enter_context(Listener(held.page_socket, shares().page, rates.take))
        page_task = asyncio.create_task(page.serve(sockets=[listener]))
        url = dashboard_url(listener, config)
        if words := exposed(config):
            log.warning("%s", words)
        keep_url(config.state_dir, url)

        def login_url() -> str:
            return f"{url}/login?code={people.make_code(THE_ADMIN, 'admin')}"

        guarding = asyncio.create_task(coordinator.guard.watch(), name="guard")
        ending.callback(guarding.cancel)
        if held.page_tls is not None:
            coordinator.expiry.page_term = held.page_tls.term
        watch = asyncio.create_task(coordinator.expiry.watch(), name="certificates")
        ending.callback(watch.cancel)
        seeing = asyncio.create_task(coordinator.registry.watch(), name="silos seen")
        ending.callback(seeing.cancel)
        say = partial(coordinator.events.say, kinds.TRACKER)
        followers = [Follower(view, writer, say) for writer in writers]
        ending.push_async_callback(_close_all, followers)
        for follower in followers:
            follower.start()
        await hooks.start()
        coordinator.start()
        looking = asyncio.create_task(stalls.forever(), name="watch")
        ending.callback(looking.cancel)
        on_started(Started(address, url, login_url, run_ids))
        lost = asyncio.create_task(_keep(held.lock), name="database lock")
        ending.callback(lost.cancel)
        await _until_stopped(coordinator, run_ids if exit_when_done else None, stop, lost)
        log.info("stopping: finishing what is being written")
        await health_servicer.enter_graceful_shutdown()
        await coordinator.shutdown()
        page.should_exit = True
        await asyncio.gather(server.stop(STOP_S), page_task)
        if lost.done():
            lost.result()  # raises why
        return await _states(held.store, run_ids) or []


async def _serve_silos(
    listen: str, held: Held, coordinator: Coordinator
) -> tuple[grpc.aio.Server, str, Health]:
    """Listen for silos, with the health and reflection services.

    Returns:
        The server, host:port, and what answers for its health.

    Raises:
        PortError: The port is taken.
    """
    most = ("grpc.max_allowed_incoming_connections", shares().silos)
    server = grpc.aio.server(options=[*SERVER_OPTIONS, most])
    servicer = FederationServicer(coordinator)
    pb_grpc.add_FederationServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((data_handlers(DataServicer(coordinator)),))
    checks = Health(coordinator.guard)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    name = pb.DESCRIPTOR.services_by_name["Federation"].full_name
    shown = Reflection(coordinator.guard, (name, health.SERVICE_NAME, reflection.SERVICE_NAME))
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(shown, server)
    try:
        if held.credentials is not None:
            port = server.add_secure_port(listen, held.credentials.for_server())
        else:
            port = server.add_insecure_port(listen)
    except RuntimeError:
        await server.start()
        await server.stop(None)  # grpc may crash when it collects one that never started
        raise taken(listen, why_taken(listen) or "the port is in use") from None
    await server.start()
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, f"{listen.rpartition(':')[0]}:{port}", checks


async def _keep(lock: AdvisoryLock | None) -> None:
    """Look after the lock in the database for as long as it can be kept.

    Raises:
        StateError: Another coordinator has it.
    """
    while lock is not None:
        await asyncio.sleep(KEEP_S)
        try:
            await asyncio.to_thread(lock.keep)
        except TransportError as error:
            log.warning("the lock in the database: %s; it is tried again", error)
    await asyncio.Event().wait()


async def _close_all(followers: Sequence[Follower]) -> None:
    """At once: the time that a service manager gives is enough for one, however many there are."""
    await asyncio.gather(*(follower.close() for follower in followers))


async def _states(store: Store, run_ids: Sequence[str]) -> list[RunState] | None:
    """How far runs have come; None: the database does not say for now."""
    try:
        rows = [await asyncio.to_thread(store.run, run_id) for run_id in run_ids]
    except TransportError as error:
        log.warning("%s", error)
        return None
    return [row.state for row in rows if row is not None]


def _at_signals() -> asyncio.Event:
    """What is set once this process is to stop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop.set)
    loop.add_signal_handler(signal.SIGHUP, at_hangup(stop.set, serves=True))
    return stop


async def _until_stopped(
    coordinator: Coordinator,
    run_ids: Sequence[str] | None,
    stop: asyncio.Event,
    lost: asyncio.Task[None],
) -> None:
    waiter = asyncio.create_task(stop.wait())
    while not (stop.is_set() or lost.done()):
        if run_ids is not None:
            states = await _states(coordinator.store, run_ids)
            if states is not None and all(state in ENDED for state in states):
                await coordinator.linger()
                break
        changed = asyncio.create_task(coordinator.changes.loops.changed(1.0))
        await asyncio.wait({waiter, lost, changed}, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
    waiter.cancel()
