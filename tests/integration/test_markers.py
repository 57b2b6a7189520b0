"""Nothing of the data leaves in words: a marker in all of them is found in nothing that left."""

import csv
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from typer.testing import CliRunner

from domo import save_initial
from domo_client.cli import app
from tests.support.faults.proxy import proxy
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import Agent, options
from tests.support.tasks.marked import MARKER, MarkedCells

FORMS = [form for word in (MARKER, MARKER.upper(), MARKER.lower()) for form in (
    word.encode(), word.encode("utf-16-le"), word.encode().hex().encode(),
)]  # fmt: skip
PATHS = (
    "/runs", "/runs/{run}", "/runs/{run}/rounds", "/runs/{run}/history.csv",
    "/runs/{run}/history.json", "/silos", "/silos/site-a", "/events?limit=200", "/status",
)  # fmt: skip


def rows(folder: Path) -> str:
    """A table; the task that reads it."""
    with (folder / f"{MARKER}-rows.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, ["name", "label", *(f"{MARKER}{k}" for k in range(3))])
        out.writeheader()
        source = torch.Generator().manual_seed(1)
        for i in range(24):
            x = torch.randn(3, generator=source).tolist()
            ill = "ill" if x[0] > 0 else "well"
            cells = {f"{MARKER}{k}": f"{v:.3f}" for k, v in enumerate(x)}
            out.writerow({"name": f"{MARKER} {i}", "label": f"{MARKER}-{ill}", **cells})
    return "tests.support.tasks.marked:MarkedCells"


def pictures(folder: Path) -> str:
    """Images with comments, and one that cannot be read; the task that reads them."""
    source = torch.Generator().manual_seed(1)
    for part, n in (("train", 8), ("test", 4)):
        for name in ("ill", "well"):
            place = folder / part / name
            place.mkdir(parents=True)
            for i in range(n):
                told = PngInfo()
                told.add_text("Comment", f"{MARKER} {i}")
                pixels = torch.randint(0, 255, (32, 32), generator=source, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(place / f"{MARKER}-{i}.png", pnginfo=told)
    (folder / "train" / "ill" / f"{MARKER}-notes.txt").write_text(MARKER)
    return "imagefolder:2"


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes what a webhook says."""

    heard: list[bytes]

    def do_POST(self) -> None:
        self.heard.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def hook() -> Iterator[tuple[str, list[bytes]]]:
    heard: list[bytes] = []
    kind = type("Kept", (Hook,), {"heard": heard})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as it:
        threading.Thread(target=it.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{it.server_address[1]}/hook", heard
        it.shutdown()


def clean(where: str, data: bytes) -> None:
    for form in FORMS:
        at = data.find(form)
        assert at < 0, f"{where}: {data[max(0, at - 200) : at + 100]!r}"


def all_of(server: Coordinator) -> Iterator[tuple[str, bytes]]:
    """What REST and its metrics say, and every file of the coordinator."""
    for path in PATHS:
        path = path.format(run=server.run_ids[0])
        yield path, server.get_text(path).encode()
    for path in server.state_dir.rglob("*"):
        if path.is_file():
            yield str(path.name), path.read_bytes()


@pytest.mark.parametrize("made", [rows, pictures], ids=lambda it: it.__name__)
def test_a_marker_is_in_nothing_that_left(made: Callable[[Path], str], tmp_path: Path) -> None:
    data = tmp_path / f"{MARKER}-folder"
    data.mkdir()
    task = made(data)
    run: dict[str, Any] = {"name": "r", "task": task, "num_rounds": 2, "num_silos": 1}
    run |= {"local_epochs": 1.0, "batch_size": 4}
    if made is rows:
        save_initial(MarkedCells().build_model(), tmp_path / "x0.safetensors")
        run["initial_model"] = str(tmp_path / "x0.safetensors")
    wire = bytearray()
    with hook() as (url, heard):
        hooks = [{"url": url, "events": ["silo-failed", "started", "finished"]}]
        with (
            coordinator(tmp_path, run, webhooks=hooks) as server,
            proxy(server.address, on_data=lambda d, b: wire.extend(b)) as link,
        ):
            given = {"share_log": True}
            agent = Agent(link.address, "site-a", tmp_path, options(data, task), **given)
            try:
                assert server.ended()["state"] == "FINISHED"
                flags = ["--server", link.address, "--name", "site-b", "--task", task]
                flags += ["--data", str(data), "--state-dir", str(tmp_path / "s"), "--json"]
                doctor = CliRunner().invoke(app, ["doctor", *flags])
            finally:
                agent.close()
            texts = dict(all_of(server))
            events = server.get("/events?limit=200")
        after = {p.name: p.read_bytes() for p in server.state_dir.rglob("*") if p.is_file()}
    if made is rows:
        assert any("loss" in e["text"] for e in events if e["kind"] == "silo-failed"), "it failed"
    assert len(wire) > 10_000
    for path in data.rglob(f"{MARKER}*"):
        if path.is_file():
            with pytest.raises(AssertionError):
                clean("the data themselves", path.read_bytes())
    clean("the wire", bytes(wire))
    clean("the doctor's bundle", doctor.stdout.encode())
    for where, text in [*texts.items(), *after.items()]:
        clean(where, text)
    assert heard
    for one in heard:
        clean("a webhook", one)
    clean("the silo's audit record", b"".join(
        p.read_bytes() for p in (tmp_path / "state-site-a" / "audit").glob("*.json*")
    ))  # fmt: skip
