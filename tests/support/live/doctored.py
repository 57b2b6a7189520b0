"""What the doctor is asked, and of what: certificates, data and flags of a silo."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typer.testing import CliRunner

from domo_client import cli
from tests.support.certificates import Authority, Pair
from tests.support.findings import Outcome
from tests.support.live.coordinator import Coordinator

LONG = (-1, 100)


class Papers(NamedTuple):
    """What a CA has signed, and another CA."""

    ca: Authority
    stranger: Authority
    server: Pair
    site_a: Pair


def signed(folder: Path) -> Papers:
    """Two CAs, the coordinator's certificate and a silo's."""
    ca = Authority(folder / "ours", "ca", LONG)
    stranger = Authority(folder / "theirs", "stranger", LONG)
    return Papers(
        ca, stranger, ca.sign("coordinator", "localhost", "127.0.0.1"), ca.sign("site-a", "site-a")
    )


def write_images(folder: Path) -> Path:
    """Data of a silo for the task `digits`."""
    source = np.random.default_rng(0)
    for part, n in (("train", 40), ("test", 10)):
        inputs = source.random((n, 1, 8, 8), np.float32)
        np.savez(folder / f"{part}.npz", inputs=inputs, labels=np.arange(n) % 10)
    return folder


def of(papers: Papers, pair: Pair | None = None, mutual: bool = True) -> dict[str, Path]:
    """The table [server.tls]."""
    pair = pair or papers.server
    files = {"cert": pair.cert, "key": pair.key}
    return files | {"client_ca": papers.ca.cert} if mutual else files


def tls_flags(papers: Papers, ca: Path | None = None, own: Pair | None = None) -> list[str]:
    own = own or papers.site_a
    return [
        *("--tls-ca", str(ca or papers.ca.cert)),
        *("--tls-cert", str(own.cert), "--tls-key", str(own.key)),
    ]


def flags(address: str, folder: Path, images: Path | None, *more: str) -> list[str]:
    data = ["--data", str(images)] if images else []
    state = ["--name", "site-a", "--state-dir", str(folder / "state")]
    return ["doctor", "--server", address, *state, "--task", "digits", *data, *more]


def doctor(*args: str) -> Outcome:
    """In this process."""
    result = CliRunner().invoke(cli.app, [*args, "--json", "--names"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    body = json.loads(result.stdout)
    assert body["state"] == "problem" if result.exit_code else body["state"] in ("ok", "warning")
    return Outcome(result.exit_code, body["checks"])


def nobody_came(server: Coordinator) -> None:
    assert server.get("/silos") == []
    assert not [e for e in server.get("/events") if e["silo_id"]]
