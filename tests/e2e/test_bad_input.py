"""Bad input through the real commands: one line that says what to do, and nothing changes."""

import re
import socket
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from domo.model.flat import FlatModel
from domo.model.model_file import save_model
from domo.names import one_line
from domo.training.initial import build_initial
from domo_server.store.database import open_database
from domo_server.store.store import Store
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.federation import Process
from tests.support.tasks import bad
from tests.support.tasks.bad import Linear, Unreadable

pytestmark = pytest.mark.e2e
WAIT_S = 200.0
DIGITS_DATA = (
    "train.npz and test.npz with inputs (N, 1, 8, 8), float32, and labels (N,), int64, in 0..9; "
    "`domo data split` makes such folders"
)


class Command(Process):
    """A command that is expected to end."""

    def __init__(self, folder: Path, log: str, *command: str):
        super().__init__(command, folder / f"{log}.log", folder)

    def result(self) -> tuple[int, list[str]]:
        """Exit code and error lines; a traceback fails the test."""
        try:
            code = self.wait(WAIT_S)
        finally:
            self.kill()
        assert "Traceback" not in self.output, self.output
        lines = [line for line in self.output.splitlines() if not line.startswith(("I0", "E0"))]
        at = [i for i, line in enumerate(lines) if line.startswith("error: ")]
        return code, [line.removeprefix("error: ") for line in lines[at[0] :]] if at else []


def client(folder: Path, address: str, name: str, *flags: str) -> Command:
    command = ("domo-client", "--server", address, "--name", name, "--once")
    state = ("--state-dir", str(folder / f"state-{name}"))
    return Command(folder, name, *command, *state, *flags)


def results(commands: Sequence[Command]) -> list[tuple[int, list[str]]]:
    try:
        return [c.result() for c in commands]
    finally:
        for c in commands:
            c.kill()


PORT_TAKEN = "cannot listen on {}: the port is in use. Choose another with --listen"
PAGE_TAKEN = (
    "the dashboard cannot listen on {}: the port is in use. Choose another with --dashboard"
)
NO_TLS = (
    "{} is another machine, and without TLS everybody on the way could read and change the model. "
    "Give --tls-ca (and --tls-cert, --tls-key), or --insecure on a network that you trust"
)
NO_NAME = (
    "'site a' is no silo name: letters, digits, '.', '_', '-', at most 64; give another --name"
)
NO_MODULE = (
    "there is no module 'no_such_module'. It must be on PYTHONPATH or in the current folder, which "
    "is {}"
)
UNREADABLE = (
    "train_data(root, shard) fails: KeyError: \"patients.csv has no column 'age'\", in "
    f"{bad.__file__}, line {Unreadable.train_data.__code__.co_firstlineno + 1} (train_data)"
)
NAME_TAKEN = (
    "the name 'site-a' is taken by another silo, which is connected now. Give this one another "
    "--name; or, if the coordinator had another address before, start it once with --moved-from "
    "OLDHOST:PORT; or, if its state folder was lost, ask the coordinator's admin to run: domo "
    "rebind site-a"
)
FOLDER_TAKEN = (
    "another domo-client (process {}) uses the state folder {}; stop it, or give this one its own "
    "--state-dir"
)


# the coordinator's command


def test_unknown_key_and_wrong_type_in_toml(tmp_path: Path) -> None:
    state = tmp_path / "state"
    server = f'[server]\nlisten = "127.0.0.1:0"\nstate_dir = "{state}"\n'
    runs = '[[runs]]\ntask = "digits"\nnum_silos = 2\n'
    files = {
        "unknown": f"{server}{runs}num_rounds = 3\nlocal_step = 2\n",
        "type": f'{server}{runs}num_rounds = "three"\n',
        "several": f"{server}lisen = 1\nreport_interval_s = 0\n{runs}num_rounds = 3\n",
        "syntax": f"{server}{runs}num_rounds = \n",
    }
    paths = {name: tmp_path / f"{name}.toml" for name in files}
    for name, text in files.items():
        paths[name].write_text(text)
    got = results(
        [Command(tmp_path, n, "domo-server", "--config", str(p)) for n, p in paths.items()]
    )
    unknown = "runs[0].local_step: unknown key; did you mean local_steps?"
    assert got == [
        (2, [f"{paths['unknown']}: {unknown}"]),
        (2, [f'{paths["type"]}: runs[0].num_rounds = "three": must be an integer']),
        (
            2,
            [
                f"{paths['several']}: 2 faults",
                "  server.report_interval_s = 0: must be greater than 0",
                "  server.lisen: unknown key; did you mean listen?",
            ],
        ),
        (2, [f"{paths['syntax']}: not valid TOML: Invalid value (at line 7, column 14)"]),
    ]
    assert not state.exists()


def test_ports_in_use(tmp_path: Path) -> None:
    config = tmp_path / "federation.toml"
    config.write_text('[[runs]]\ntask = "digits"\nnum_rounds = 1\nnum_silos = 1\n')
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken, free = f"127.0.0.1:{listening.getsockname()[1]}", "127.0.0.1:0"

        def server(log: str, listen: str, dashboard: str) -> Command:
            flags = ("--config", str(config), "--state-dir", str(tmp_path / log))
            ports = ("--listen", listen, "--dashboard", dashboard)
            return Command(tmp_path, log, "domo-server", *flags, *ports)

        got = results([server("grpc", taken, free), server("page", free, taken)])
    assert got == [(7, [PORT_TAKEN.format(taken)]), (7, [PAGE_TAKEN.format(taken)])]
    for folder in ("grpc", "page"):
        store = Store(open_database(f"sqlite:///{tmp_path / folder / 'coordinator.db'}"))
        assert store.all_runs() == []
        store.close()


# the silo's command


def test_wrong_addresses_names_and_devices(tmp_path: Path) -> None:
    soon, nowhere = ("--connect-timeout", "0.1"), "no-such-host.invalid:50051"
    with socket.socket() as closed:  # bound but not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        refused = f"127.0.0.1:{closed.getsockname()[1]}"
        commands = [
            client(tmp_path, refused, "closed", *soon),
            client(tmp_path, nowhere, "unresolved", "--insecure", *soon),
            client(tmp_path, nowhere, "plain"),
            client(tmp_path, "127.0.0.1", "portless"),
            client(tmp_path, refused, "site a"),
            client(tmp_path, refused, "nodata", "--data", str(tmp_path / "none")),
        ]
        if not torch.cuda.is_available():
            commands.append(client(tmp_path, refused, "gpu", "--device", "cuda"))
        got = results(commands)
    assert got[:6] == [
        (1, [f"no coordinator answers at {refused} (connection refused)"]),
        (1, [f"no coordinator answers at {nowhere} (the name cannot be resolved)"]),
        (2, [NO_TLS.format(nowhere)]),
        (
            2,
            [
                "the coordinator's address must be host:port, got '127.0.0.1': the port is "
                "missing; 127.0.0.1:50051, if its admin says nothing else"
            ],
        ),
        (2, [NO_NAME]),
        (2, [f"--data {tmp_path}/none: there is no such folder"]),
    ]
    for code, lines in got[6:]:
        text = r"--device cuda: not usable here \(.+\); try auto or cpu"
        assert code == 2
        assert re.fullmatch(text, "\n".join(lines))
    made = {p.name for p in tmp_path.iterdir() if p.is_dir()}
    assert made == {"state-closed", "state-unresolved"}


def untouched(server: Coordinator) -> None:
    """Nobody is part of the run, and it still waits."""
    run = server.run()
    assert (run["state"], run["rounds_done"], run["roster"]) == ("WAITING", 0, [])
    assert run["detail"].startswith("waiting for 2 more of 2 silos to enrol")


def test_data_tasks_and_models_that_do_not_fit(tmp_path: Path) -> None:
    flat = FlatModel(nn.Sequential(nn.Linear(64, 10)))
    save_model(tmp_path / "other.safetensors", flat.layout, flat.read_all())
    run = {
        "task": "digits",
        "num_rounds": 1,
        "num_silos": 2,
        "initial_model": str(tmp_path / "other.safetensors"),
    }
    empty, label = tmp_path / "empty", tmp_path / "label"
    empty.mkdir()
    label.mkdir()
    images = np.zeros((3, 1, 8, 8), np.float32)
    np.savez(label / "train.npz", inputs=images, labels=np.array([0, 10, 9]))
    with coordinator(tmp_path, run) as server:
        got = results(
            [
                client(tmp_path, server.address, "model", "--shard", "0/2"),
                client(tmp_path, server.address, "empty", "--data", str(empty)),
                client(tmp_path, server.address, "label", "--data", str(label)),
                client(tmp_path, server.address, "list", "--task", "mine:Task", "--shard", "0/2"),
            ]
        )
        untouched(server)
        said = {e["silo_id"]: e["text"] for e in server.get("/events") if e["kind"] == "declined"}
    no_part = "this silo takes no part in 1-domo-digits: "
    reasons = {
        "model": "the silo's model does not match the run's: "
        "0.weight: the run has float32[10, 64] (trainable), this silo has "
        "float32[16, 1, 3, 3] (trainable); 0.bias: the run has float32[10] (trainable), this "
        "silo has float32[16] (trainable); 3.weight: the run has no such tensor, this silo has "
        "float32[32, 16, 3, 3] (trainable) (and 3 more)",
        "empty": f"the data folder {empty} is empty. It should hold {DIGITS_DATA}",
        "label": f"{label}/train.npz: label 10 at index 1 is not in 0..9 (1 of 3 labels are not)",
        "list": "the run trains 'digits', which is not on this silo's list (mine:Task); allow it "
        "with --task digits",
    }
    assert got == [(2, [no_part + reason]) for reason in reasons.values()]
    reasons["empty"] = f"the data folder is empty. It should hold {DIGITS_DATA}"
    reasons["label"] = "labels have to be in 0..9, and 1 of 3 labels are not"
    assert said == {k: f"{k} declined 1-domo-digits: {one_line(v)}" for k, v in reasons.items()}


def test_own_tasks_with_faults(tmp_path: Path) -> None:
    save_model(tmp_path / "x0.safetensors", *build_initial(Linear(), 0))
    tasks = (
        "no_such_module:Task",
        "tests.support.tasks.bad:Linaer",
        "tests.support.tasks.bad:Unreadable",
        "tests.support.tasks.bad:Linear",
    )
    why = (
        NO_MODULE.format(tmp_path),
        "the module 'tests.support.tasks.bad' has no 'Linaer'. Did you mean "
        "'tests.support.tasks.bad:Linear'?",
        UNREADABLE,
        "loss(model, batch) fails: IndexError: Target 7 is out of bounds. Labels are numbered from "
        "0, and the model has no output for this one",
    )
    for number, (task, reason) in enumerate(zip(tasks, why, strict=True)):
        folder = tmp_path / str(number)
        run = {
            "name": "mine",
            "task": task,
            "num_rounds": 1,
            "num_silos": 2,
            "initial_model": str(tmp_path / "x0.safetensors"),
        }
        folder.mkdir()
        with coordinator(folder, run) as server:
            one = client(tmp_path, server.address, f"s{number}", "--task", task, "--shard", "0/2")
            assert one.result() == (2, [f"this silo takes no part in 1-mine: {reason}"])
            untouched(server)


def test_two_silos_with_one_name(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 2}
    with coordinator(tmp_path, run) as server:
        first = client(tmp_path, server.address, "site-a", "--shard", "0/2")
        try:
            detail = "waiting for 1 more of 2 silos to enrol"
            server.until(f"/runs/{server.run_ids[0]}", lambda run: run["detail"] == detail)
            name = ("domo-client", "--server", server.address, "--name", "site-a", "--state-dir")
            got = results(
                [
                    Command(tmp_path, "other", *name, str(tmp_path / "other-state")),
                    Command(tmp_path, "same", *name, str(tmp_path / "state-site-a")),
                ]
            )
            assert server.silo("site-a")["phase"] != "offline"
            assert first.poll() is None
            assert first.stop() == 0
        finally:
            first.kill()
        pid = first.pid
        assert server.run()["detail"] == detail
    state = tmp_path / "state-site-a"
    assert got == [(1, [NAME_TAKEN]), (1, [FOLDER_TAKEN.format(pid, state)])]
