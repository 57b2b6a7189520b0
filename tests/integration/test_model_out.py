"""What leaves with a model: its card and its digest, over a coordinator."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import domo_client
from domo.commands.main import app
from domo.metrics import Sum
from domo.model.card import card_in
from domo.model.card_text import markdown
from domo.model.model_file import check_content
from domo.model.tensor_file import TensorFile
from domo.tasks.base import ArrayDataset
from tests.support.live.coordinator import coordinator, own_run
from tests.support.played.lab import RUN_ID, Lab, opened, play


async def the_file(lab: Lab) -> TensorFile:
    path = await lab.view.model_file(RUN_ID)
    assert path is not None
    file = TensorFile.open(path)
    assert check_content(file)
    return file


def test_a_model_carries_its_card_during_a_run_and_at_its_end(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, 8, data_licence="on request", evaluate_every=1) as lab:
            assert await lab.view.card(RUN_ID) is None
            names = lab.run.roster.frozen or []
            await lab.send_all(*names)
            await lab.round_open(1)
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            first = card_in((await the_file(lab)).metadata)
            assert first == await lab.view.card(RUN_ID)
            assert first is not None
            assert (first.run_id, first.round_index, first.state) == (RUN_ID, 1, None)
            assert [(s.num_samples, s.rounds) for s in first.silos] == [(8, 1)] * len(names)
            assert first.points == []
            await lab.run.evaluations.add(names[0], 1, {"accuracy": Sum(3.0, 4.0)})
            tested = card_in((await the_file(lab)).metadata)
            assert tested is not None
            assert tested.own is not None
            assert tested.own.metrics == {"accuracy": 0.75}
            await lab.send_all(*names)
            await lab.until(lambda: lab.run.state.phase == "EVALUATING")
            for name in names:
                await lab.run.evaluations.add(name, 2, {"accuracy": Sum(4.0, 8.0)})
            await lab.ended()
            file = await the_file(lab)
            assert file.path.name == "model.safetensors"
            last = card_in(file.metadata)
            assert last is not None
            assert (last.state, last.round_index) == ("FINISHED", 2)
            assert last.checkpoint_digest != tested.checkpoint_digest
            assert last.layout_digest == tested.layout_digest
            shown = await lab.view.card(RUN_ID)
            assert shown is not None
            assert shown.model_copy(update={"finished_at": last.finished_at}) == last
            assert "Licence of the data: on request" in markdown(last)

    play(act())


def export(*words: Any) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, words)])


def test_a_round_that_was_not_committed_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with opened(tmp_path, num_rounds=3) as lab:
            names = lab.run.roster.frozen or []
            await lab.send_all(*names)
            await lab.round_open(1)
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            assert lab.run.model.current is not None
            x1 = lab.run.model.current["x"]

            def fault(*_: Any) -> None:
                raise RuntimeError("a row that the database does not take")

            monkeypatch.setattr(lab.store, "commit_round", fault)
            await lab.send_all(*names)
            run = await lab.ended()
            assert (run.state, run.rounds_done) == ("FAILED", 1)
            file = await the_file(lab)
            card = card_in(file.metadata)
            assert card is not None
            assert card.round_index == 1
            assert torch.equal(torch.cat([file.read("weight").flatten(), file.read("bias")]), x1)

    play(scene())


def test_an_export_that_has_waited_is_of_the_newest_round(tmp_path: Path) -> None:
    async def scene() -> None:
        async with opened(tmp_path, num_rounds=6) as lab:
            for r in range(5):
                await lab.send_all(*(lab.run.roster.frozen or []))
                await lab.round_open(r + 1)
                await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
                if r == 0:  # another export is going on
                    await lab.view._exporting.acquire()
                    asked = asyncio.create_task(the_file(lab))
                    await asyncio.sleep(0.05)
            lab.view._exporting.release()
            card = card_in((await asked).metadata)
            assert card is not None
            assert card.round_index == 5

    play(scene())


def test_a_checkpoint_is_exported_with_the_layout_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def act() -> None:
        async with opened(tmp_path, num_rounds=1) as lab:
            await lab.send_all(*(lab.run.roster.frozen or []))
            await lab.ended()

    play(act())
    folder = tmp_path / "state" / "runs" / RUN_ID
    newest = max((folder / "checkpoints").glob("x*.safetensors"))
    assert "card:  none" in export(newest, "--out", "a.pt").stdout
    assert "a.pt" not in export(folder, "--out", "b.pt").stdout
    a, b = (torch.load(f"{name}.pt", weights_only=True) for name in "ab")
    nn.Linear(3, 2).load_state_dict(a)
    assert all(torch.equal(a[name], b[name]) for name in b)
    (folder / "x0.safetensors").unlink()
    assert "is a coordinator's checkpoint; it needs" in export(newest, "--out", "c.pt").stderr


def test_a_run_is_exported_from_its_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = own_run(
        tmp_path, nn.Linear(2, 1), num_rounds=1, evaluate_every=0, name="own", limits="none"
    )
    waiting = run | {"name": "later"}
    data = ArrayDataset(torch.ones(4, 2), torch.zeros(4))
    with coordinator(tmp_path, run, waiting) as server:
        model = nn.Linear(2, 1)
        with domo_client.connect(server.address, "site-a", state_dir=tmp_path / "a") as silo:
            for rnd in silo.rounds(model):
                opt = rnd.optimizer()
                for inputs, _ in rnd.batches(data):
                    model(inputs).sum().backward()
                    opt.step()
        server.ended()
        nobody = export(server.run_ids[0], "--server", server.url, "--out", "o")
        assert "this needs a person with the role auditor: give --token-file" in nobody.stderr
        (token := tmp_path / "token").write_text(server.token)
        by_file = export(
            server.run_ids[0], "--server", server.url, "--token-file", str(token), "--out", "f"
        )
        assert by_file.exit_code == 0, by_file.output
        monkeypatch.setenv("DOMO_TOKEN", server.token)
        done = export(server.run_ids[0], "--server", server.url, "--format", "torch", "--out", "o")
        assert done.exit_code == 0, done.output
        nn.Linear(2, 1).load_state_dict(torch.load("o/model.pt", weights_only=True))
        assert "Limits: none" in Path("o/README.md").read_text()
        early = export(server.run_ids[1], "--server", server.url, "--out", "p")
        assert "has no model yet" in early.stderr
        unknown = export("7-x", "--server", server.url, "--out", "p")
        assert "no run '7-x'" in unknown.stderr
        assert (early.exit_code, unknown.exit_code) == (6, 6)
    assert not Path("p").exists()
    assert not list(tmp_path.glob(".domo-export-*"))


def test_a_checkpoint_that_is_pruned_while_it_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is read, then rounds go by, and its file is gone: the newer one is exported."""

    async def go() -> None:
        async with opened(tmp_path, roster=["site-a", "site-b"], num_rounds=4) as lab:
            rows = []
            for r in (1, 2):
                await lab.send_all("site-a", "site-b")
                await lab.round_open(r)
                await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
                rows.append(lab.store.run(RUN_ID))
            old = rows[0]
            assert old is not None
            (lab.run.folder / "checkpoints" / str(old.checkpoint)).unlink()
            answers = [old, old, *5 * [rows[1]]]
            monkeypatch.setattr(lab.store, "run", lambda _: answers.pop(0))
            path = await lab.view.model_file(RUN_ID)
            assert path is not None
            assert path.name.startswith("x2-")

    play(go())
