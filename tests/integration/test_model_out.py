"""What leaves with a model: its card and its digest, over a coordinator."""

from pathlib import Path

from domo.model_card import card_in, markdown
from domo.model_file import check_content
from domo.tensor_file import TensorFile
from tests.lab import RUN_ID, Lab, opened, play


async def the_file(lab: Lab) -> TensorFile:
    path = await lab.view.model_file(RUN_ID)
    assert path is not None
    file = TensorFile.open(path)
    assert check_content(file)
    return file


def test_a_model_carries_its_card_during_a_run_and_at_its_end(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, data_licence="on request", evaluate_every=1) as lab:
            assert await lab.view.card(RUN_ID) is None
            names = lab.run.roster or []
            await lab.send_all(*names)
            await lab.round_open(1)
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            first = card_in((await the_file(lab)).metadata)
            assert first == await lab.view.card(RUN_ID)
            assert first is not None
            assert (first.run_id, first.round_index, first.state) == (RUN_ID, 1, None)
            assert [(s.num_samples, s.rounds) for s in first.silos] == [(8, 1)] * len(names)
            assert first.points == []
            await lab.run.add_evaluation(names[0], 1, {"accuracy": (3.0, 4.0)})
            tested = card_in((await the_file(lab)).metadata)
            assert tested is not None
            assert tested.own is not None
            assert tested.own.metrics == {"accuracy": 0.75}
            await lab.send_all(*names)
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
