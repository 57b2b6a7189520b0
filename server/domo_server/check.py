"""`domo-server check`: could a coordinator start here with this file? Changes nothing."""

import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
from alembic.runtime.migration import MigrationContext
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from domo.algorithm import held_beside
from domo.errors import ConfigError, DomoError, StateError
from domo.methods import Kernel
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.ops.console import say
from domo.ops.findings import (
    Finding,
    Report,
    carry_out,
    ok,
    problem,
    warning,
)
from domo.ops.folder_checks import check_folder, check_space, human_size
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.stages.limited import Limited
from domo.training.initial import build_model, task_of
from domo_server.check_page import dashboard_port, dashboard_tls, oidc
from domo_server.config import ServerConfig, load_config, name_runs
from domo_server.coordinator.submission import check_submission
from domo_server.identity.checks import certificates
from domo_server.integrations.trackers import make_writers
from domo_server.integrations.webhook_message import Hook
from domo_server.startup import why_taken
from domo_server.store.database import connect, versions

MODELS_OF_A_RUN = 14
"""In a run's folder, at most: x_0, three checkpoints and the best one's with m, an export and the
model of the newest and of the best."""
CHECKPOINTS = 4
"""Of them: what a method has beside x and m is in each."""
SMALL_DISK = 100_000_000
"""What is wanted beside the models: database, logs of it, the odd leftover."""


def check(path: Path, as_json: bool, file_only: bool, limit_s: float | None = None) -> int:
    """Look, print, and return the exit code.

    Args:
        path: federation.toml.
        as_json: Print findings as JSON.
        file_only: Read the file, and look at nothing else.
        limit_s: How long a check may take; None: as `domo.stages.limited` has it.

    Raises:
        ConfigError: The file is not good.
    """
    return carry_out(lambda limited: _checked(path, as_json, file_only, limited), limit_s)


def _checked(path: Path, as_json: bool, file_only: bool, limited: Limited) -> Report:
    report = Report(as_json, limited)
    try:
        settings, runs = load_config(path, {})
        name_runs(runs)
    except ConfigError as error:
        if as_json:
            mend = "mend the file; docs/configuration.md has all keys"
            report.add("configuration", problem(str(error), mend))
            say(report.as_json())
        raise
    report.add(
        "configuration",
        ok(f"{path} is good: silos at {settings.listen}, {counted(len(runs), 'run')}"),
    )
    if not as_json:
        _tell_runs(runs)
    if not file_only:
        _look(report, settings, runs)
    if as_json:
        say(report.as_json())
    elif not file_only:
        report.close("nothing is wrong: a coordinator can start here")
    return report


def _tell_runs(runs: Sequence[RunConfig]) -> None:
    for run in runs:
        who = (
            ", ".join(run.roster)
            if run.roster
            else f"the first {counted(run.expected_silos, 'silo')}"
        )
        say(f"  {run.title}: {run.method} on {run.task}, {counted(run.num_rounds, 'round')}, {who}")


def _look(report: Report, settings: ServerConfig, runs: Sequence[RunConfig]) -> None:
    sizes: dict[str, int] = {}
    report.run("runs", lambda: submissions(runs, sizes))
    report.run("port for silos", lambda: silo_port(settings))
    report.run("port of the dashboard", lambda: dashboard_port(settings))
    report.run("TLS of the dashboard", lambda: dashboard_tls(settings))
    report.run("TLS files", lambda: certificates(settings))
    report.run("state folder", lambda: check_folder(settings.state_dir, "domo-server"))
    report.run("disk space", lambda: space(settings, runs, sizes))
    report.run("database", lambda: database(settings))
    if settings.trackers is not None:
        report.run("trackers", lambda: trackers(settings))
    if settings.oidc is not None:
        report.run("log-in at the provider", lambda: oidc(settings))
    if settings.webhooks:
        report.run("webhooks", lambda: webhooks(settings))


def trackers(settings: ServerConfig) -> Iterator[Finding]:
    """Whether what writes to them is installed."""
    try:
        writers = make_writers(settings.trackers)
    except ConfigError as error:
        yield problem(str(error), "install it, or leave the key out")
    else:
        yield ok(", ".join(w.name for w in writers) or "none")


def submissions(runs: Sequence[RunConfig], sizes: dict[str, int]) -> Iterator[Finding]:
    """Whether each run could be queued; notes the size of its model by the run's name."""
    if not runs:
        yield ok("none in the file: the coordinator will be idle until `domo submit`")
    for name, run in name_runs(runs):
        try:
            check_submission(run)
            if run.initial_model:
                sizes[name] = Path(run.initial_model).stat().st_size
            else:
                layout = FlatModel(build_model(task_of(run), run.seed), run.private).layout
                sizes[name] = sum(layout.num_bytes(section) for section in Section)
        except DomoError as error:
            yield problem(f"{name}: {error}", "mend the run in the file")
        else:
            yield ok(f"{name} can be queued; its model has {human_size(sizes[name])}")


def silo_port(settings: ServerConfig) -> Iterator[Finding]:
    """Whether the port for silos is free."""
    reason = why_taken(settings.listen)
    mend = 'stop what is there, or choose another: listen = "HOST:PORT", or --listen'
    if reason:
        yield problem(f"cannot listen on {settings.listen}: {reason}", mend)
    else:
        yield ok(f"{settings.listen} is free")


def models_of(kernel: Kernel) -> int:
    """How many models a run takes on the disk: a checkpoint may have a vector more, or two."""
    return MODELS_OF_A_RUN + CHECKPOINTS * (kernel.average + len(held_beside(kernel)))


def space(
    settings: ServerConfig, runs: Sequence[RunConfig], sizes: dict[str, int]
) -> Iterator[Finding]:
    """Whether the state folder has room for the runs of the file."""
    named = [(sizes[name], run.kernel) for name, run in name_runs(runs) if name in sizes]
    models = sum(models_of(kernel) * size for size, kernel in named)
    spool = max(
        (run.expected_silos * sizes.get(name, 0) for name, run in name_runs(runs)), default=0
    )
    most = max((models_of(kernel) for _, kernel in named), default=MODELS_OF_A_RUN)
    what = f"{counted(len(named), 'run')} of {most} models each, an update of each silo"
    yield check_space(settings.state_dir, SMALL_DISK + models + spool, what)


def webhooks(settings: ServerConfig) -> Iterator[Finding]:
    """Whether their secrets can be read and their hosts have an address; sends nothing."""
    for config in settings.webhooks:
        try:
            hook = Hook(config)
        except ConfigError as error:
            yield problem(str(error), "set the variable, or mend the file")
            continue
        host = httpx.URL(config.url).host
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            text = f"the host of a webhook, {host}, has no address here: {error.strerror}"
            yield warning(text, "is the name right, and the name service reachable?")
        else:
            yield ok(f"{hook.host} is told {', '.join(config.events)}")


def database(settings: ServerConfig) -> Iterator[Finding]:
    """Whether the database can be reached, and whether this version of domo can read it."""
    try:
        url = make_url(settings.database_url)
    except SQLAlchemyError as error:
        yield problem(f"database: no URL of SQLAlchemy: {error}", "see docs/configuration.md")
        return
    shown = url.render_as_string()  # without the password
    mend = "is it reachable, do user and database exist, is it whole? Else restore a backup"
    with tempfile.TemporaryDirectory(prefix="domo-check-") as folder:
        file = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
        try:
            if file is not None:
                if not file.exists():
                    yield ok(f"{shown} will be made at the start")
                    return
                copy = _copied(file, Path(folder))  # to look into the file itself may change it
                url = url.set(database=str(copy))
            engine = connect(url)
            try:
                with engine.connect() as connection:
                    version = MigrationContext.configure(connection).get_current_revision()
            finally:
                engine.dispose()
        except (SQLAlchemyError, OSError, StateError) as error:
            first = str(error).splitlines()[0]
            yield problem(f"the database {shown} cannot be read: {first}", mend)
            return
    yield _version(shown, version)


def _copied(file: Path, folder: Path) -> Path:
    """A SQLite database with what is still in its log."""
    for suffix in ("", "-wal"):
        source = file.with_name(file.name + suffix)
        if source.exists():
            shutil.copyfile(source, folder / (file.name + suffix))
    return folder / file.name


def _version(shown: str, version: str | None) -> Finding:
    known = versions()
    if version is None:
        return ok(f"{shown} is empty; the tables are made at the start")
    if version not in known:
        text = f"{shown} has version {version}, which this domo does not know (newest: {known[0]})"
        return problem(text, "it was made by a newer domo: install that, or restore a backup")
    if version != known[0]:
        text = f"{shown} has version {version}; the start brings it to {known[0]} for good"
        return warning(text, "make a backup first: an older domo cannot read it afterwards")
    return ok(f"{shown} can be reached, version {version}")
