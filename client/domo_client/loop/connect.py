"""How a silo joins a federation."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from domo.errors import ConfigError
from domo.names import is_name
from domo.ops.addresses import grpc_address, is_loopback
from domo.ops.console import complain
from domo.stages.now import end, in_stage
from domo.stages.watch import Watch
from domo.storage.home import temporary_in, user_state
from domo_client.identity.tls import check_own
from domo_client.loop.silo import Silo
from domo_client.policy.gate import Gate
from domo_client.policy.pins import see_coordinator
from domo_client.rpc.connection import Connection
from domo_client.rpc.session import FIRST_CONNECT_S, Session
from domo_client.state.folder import SiloState
from domo_client.state.record import Record
from domo_client.telemetry.log_tail import LogTail, journal
from domo_proto.channel import TlsFiles

COMPRESSIONS = ("none", "zstd")
VARIABLE = "DOMO_CLIENT_POLICY"


def connect(
    server: str,
    silo: str,
    *,
    state_dir: Path | str | None = None,
    tls: TlsFiles | None = None,
    insecure: bool = False,
    role: str = "trainer",
    device: str = "",
    first_connect_s: float | None = None,
    on_trouble: Callable[[str], None] = lambda text: None,
    compression: str = "none",
    share_log: bool = False,
    on_stuck: Callable[[str], None] = lambda text: complain(text, "yellow"),
    max_threads: int | None = None,
    moved_from: str = "",
    policy: Path | str | None = None,
    public_data: bool = False,
) -> Silo:
    """Join a federation.

    Args:
        server: The coordinator, host:port, as it was typed.
        silo: This silo's name.
        state_dir: Its state folder; in the user's state folder by default.
        tls: PEM files.
        insecure: Speak without TLS to another machine.
        role: `trainer`, or `evaluator` for a silo with test data only.
        device: What it trains on, in words, for the dashboard.
        first_connect_s: How long to try before the first success, seconds. By default 60; for as
            long as it takes, where this state folder has joined the same coordinator before.
        on_trouble: Told in words when the network fails and the call will be made again.
        compression: `none`, or `zstd`: vectors are compressed where that makes them smaller; for
            links below about 1 Gbit/s.
        share_log: Send domo's own log lines, from INFO on, to the coordinator, where everybody who
            sees its dashboard can read them. Never those of the task or of other libraries.
        on_stuck: Told in words when what is the user's (a dataset, a step, the loop's own code)
            does not move on, with its place; and when it does again.
        max_threads: CPU threads that a run may have here; by default as many as there are CPUs that
            this process may use. A run that wants more is declined.
        moved_from: Where the coordinator was before, host:port, if it has moved: to one at another
            address this silo is another one.
        policy: What a coordinator may have done here: a file, `default` or `open`; by default
            DOMO_CLIENT_POLICY, else policy.toml in the state folder, else the default policy.
        public_data: The data are public, and without a policy nothing is refused.

    Raises:
        ConfigError: A bad address, no TLS to another machine without `insecure`, or no folder for
            the state.
        CertificateError: A certificate, key or CA of either end will not do; the text says which.
        StateError: The state folder is in use.
        CoordinatorUnavailableError: Nobody answers.
        SiloConflictError: The name is taken.
    """
    server = grpc_address(server)
    moved_from = grpc_address(moved_from) if moved_from else ""
    if not is_name(silo):
        raise ConfigError(
            f"{silo!r} is no silo name: letters, digits, '.', '_', '-', at most 64; give another "
            "--name"
        )
    if compression not in COMPRESSIONS:
        raise ConfigError(f"--compression must be none or zstd, got {compression!r}")
    if tls is None and not insecure and not is_loopback(server):
        raise ConfigError(
            f"{server} is another machine, and without TLS everybody on the way could read and "
            "change the model. Give --tls-ca (and --tls-cert, --tls-key), or --insecure on a "
            "network that you trust"
        )
    if tls is not None:
        check_own(tls, silo)

    def trouble(text: str) -> None:
        journal.warning("network: %s", text, extra={"silo": silo})
        on_trouble(text)

    end()  # a simulation before it, in this thread, may have been left in a round
    with ExitStack() as failed:
        watch = Watch(lambda text: on_stuck(f"{silo}: {text}"))
        watch.start()
        failed.callback(watch.stop)
        own = Path(state_dir) if state_dir else None
        folder = own or user_state("the silo's state", "state_dir") / "silos" / silo
        with in_stage("state"):
            state = SiloState(folder)
        failed.callback(state.close)
        temporary_in(state.folder)
        state.use_as(silo)
        longest = first_connect_s
        given = policy or os.environ.get(VARIABLE) or None
        gate = Gate(given, state.folder, silo, public_data)
        see_coordinator(gate.policy, server, tls)
        if longest is None and not state.knows(server):
            longest = FIRST_CONNECT_S
        tail = LogTail(silo) if share_log else None
        if tail is not None:
            failed.callback(tail.close)
        instance_id = state.identity(server, tls.ca if tls else None, moved_from)
        session = Session(
            server,
            silo,
            instance_id,
            tls=tls,
            role=role,
            device=device,
            first_connect_s=longest,
            on_trouble=trouble,
            compression=compression,
        )
        failed.callback(session.close)
        record = Record(state.folder)
        failed.callback(record.close)
        connection = Connection(session, state, record)
        session.join()
        state.note_joined(server, instance_id)
        record.note("joined", coordinator=server, name=silo, role=role, tls=tls is not None)
        if tls is not None:
            look_after(session, tls, lambda text: on_stuck(f"{silo}: {text}"))
        failed.pop_all()
    return Silo(connection, state, watch, tail, max_threads, gate=gate)


def look_after(session: Session, tls: TlsFiles, tell: Callable[[str], None]) -> None:
    """Have the files of TLS looked after until the session is closed."""
    from domo_client.identity.renewal import Renewal

    renewal = Renewal(tls, session.silo_id, session.certify, session.lines.move, tell)
    session.on_close = renewal.stop
    renewal.start()
