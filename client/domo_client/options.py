"""The flags that joining, `doctor` and `support-bundle` share; light for `health`."""

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str | None,
    typer.Option(envvar="DOMO_CLIENT_SERVER", help="The coordinator, host:port."),
]
Name = Annotated[
    str | None,
    typer.Option(envvar="DOMO_CLIENT_NAME", help=r"This silo's name \[this machine's name]."),
]
Data = Annotated[
    Path | None, typer.Option(envvar="DOMO_CLIENT_DATA", help="Folder of this silo's data.")
]
Shard = Annotated[
    str | None,
    typer.Option(
        envvar="DOMO_CLIENT_SHARD",
        help="i/K: train on part i of K of a public dataset instead (demos).",
    ),
]
Task = Annotated[
    list[str] | None,
    typer.Option(help=r"A task that may be trained here, repeatable \[the named ones]."),
]
Device = Annotated[str, typer.Option(envvar="DOMO_CLIENT_DEVICE", help="auto, cpu, cuda, cuda:1.")]
Precision = Annotated[str, typer.Option(help="float32, or bf16 for autocast.")]
Workers = Annotated[int, typer.Option(min=0, help="Loader processes.")]
Role = Annotated[str, typer.Option(help="trainer, or evaluator: test data only.")]
StateDir = Annotated[
    Path | None,
    typer.Option(envvar="DOMO_CLIENT_STATE_DIR", help="What this silo remembers."),
]
TlsCa = Annotated[
    Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CA", help="CA of the coordinator.")
]
TlsCert = Annotated[
    Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_CERT", help="Own certificate (mTLS).")
]
TlsKey = Annotated[Path | None, typer.Option(envvar="DOMO_CLIENT_TLS_KEY", help="Its private key.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        envvar="DOMO_CLIENT_INSECURE",
        help="Speak without TLS to another machine, on a network you trust.",
    ),
]
Dashboard = Annotated[
    str | None,
    typer.Option(help=r"The coordinator's dashboard, for its clock \[http://HOST:8080]."),
]
