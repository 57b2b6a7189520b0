"""The flags that joining and `doctor` share; light for `health`.

They are the fields of `Flags`, in one place; `takes_flags` gives them to a command.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from domo_proto.channel import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What an operator gives; every field is a flag of `domo-client` and its own default."""

    server: Annotated[
        str | None,
        typer.Option(envvar="DOMO_CLIENT_SERVER", help="The coordinator, host:port."),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(envvar="DOMO_CLIENT_NAME", help="This silo's name [default: this machine's]."),
    ] = None
    data: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_DATA", help="Folder of this silo's data.")
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_SHARD",
            help="i/K: train on part i of K of a public dataset instead (demos).",
        ),
    ] = None
    task: Annotated[
        list[str] | None,
        typer.Option(help="A task that may be trained here; repeatable [default: the named ones]."),
    ] = None
    device: Annotated[
        str, typer.Option(envvar="DOMO_CLIENT_DEVICE", help="auto, cpu, cuda, cuda:1.")
    ] = "auto"
    precision: Annotated[str, typer.Option(help="float32, or bf16 for autocast.")] = "float32"
    workers: Annotated[int, typer.Option(min=0, help="Loader processes.")] = 0
    max_threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU threads that a run may have here [default: the CPUs that it may use].",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_POLICY",
            help="What a coordinator may have done here: a file, default, or open [default: "
            "policy.toml in the state folder, else default; open for --shard].",
        ),
    ] = None
    role: Annotated[str, typer.Option(help="trainer, or evaluator: test data only.")] = "trainer"
    state_dir: Annotated[
        Path | None,
        typer.Option(envvar="DOMO_CLIENT_STATE_DIR", help="What this silo remembers."),
    ] = None
    moved_from: Annotated[
        str | None,
        typer.Option(help="host:port where the coordinator was before, once, if it has moved."),
    ] = None
    tls_ca: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CA", help="CA of the coordinator.")
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CERT", help="Own certificate (mTLS).")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_KEY", help="Its private key.")
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="DOMO_CLIENT_INSECURE",
            help="Speak without TLS to another machine, on a network you trust.",
        ),
    ] = False
    compression: Annotated[
        str,
        typer.Option(
            envvar="DOMO_CLIENT_COMPRESSION", help="none, or zstd for links below about 1 Gbit/s."
        ),
    ] = "none"
    share_log: Annotated[
        bool,
        typer.Option(
            "--share-log",
            envvar="DOMO_CLIENT_SHARE_LOG",
            help="Show domo's own log lines on the coordinator's dashboard.",
        ),
    ] = False
    connect_timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds to try before the first connection [default: 60; no limit where this "
            "silo has joined this coordinator before].",
        ),
    ] = None
    metrics: Annotated[
        str | None,
        typer.Option(
            envvar="DOMO_CLIENT_METRICS",
            help="host:port where Prometheus may scrape this silo, such as 127.0.0.1:9464.",
        ),
    ] = None
    log_format: Annotated[
        str | None,
        typer.Option(envvar="DOMO_LOG", help="text, or json for machines [default: text]."),
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Stop after one run.")] = False

    @property
    def tls(self) -> TlsFiles | None:
        """The PEM files; None: no TLS."""
        given = TlsFiles(self.tls_ca, self.tls_cert, self.tls_key)
        return None if given == TlsFiles() else given


Command = Callable[..., None]


def takes_flags(command: Command) -> Command:
    """Give a command all fields of `Flags` as its flags; it gets them as `flags`.

    Typer reads a command's flags off its signature, so this writes one: the fields of `Flags` in
    the place of the parameter `flags`.
    """
    names = [f.name for f in fields(Flags)]
    hints = get_type_hints(Flags, include_extras=True)
    shared = [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name]
        )
        for f in fields(Flags)
    ]

    @wraps(command)
    def with_flags(**given: Any) -> None:
        flags = Flags(**{name: given.pop(name) for name in names})
        command(flags=flags, **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())
    place = [p.name for p in own].index("flags")
    kept = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    written = inspect.Signature([*kept[:place], *shared, *kept[place + 1 :]])
    with_flags.__signature__ = written  # type: ignore[attr-defined]
    with_flags.__annotations__ = {p.name: p.annotation for p in written.parameters.values()}
    return with_flags


Dashboard = Annotated[
    str | None,
    typer.Option(help="The coordinator's dashboard, for its clock [default: http://HOST:8080]."),
]
