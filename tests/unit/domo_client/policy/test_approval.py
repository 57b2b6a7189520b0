"""Runs that wait for a person."""

from pathlib import Path

import pytest

from domo.errors import ConfigError
from domo.run_config import RunConfig
from domo_client.policy.approval import Approvals

CONFIG = RunConfig(task="digits", num_rounds=3)
OTHER = RunConfig(task="digits", num_rounds=4)


def test_an_answer_is_about_one_configuration(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    approvals.ask("1-a", CONFIG, 10.0)
    assert approvals.ask("1-a", CONFIG, 20.0).at == 10.0, "it waits since then"
    assert [a.run_id for a in approvals.waiting()] == ["1-a"]
    approvals.say("1-a", "yes", "somebody")
    assert approvals.said("1-a", CONFIG.digest) is not None
    assert not list(approvals.waiting())
    assert approvals.said("1-a", OTHER.digest) is None, "another run of that id"
    assert approvals.ask("1-a", OTHER, 30.0).at == 30.0
    assert [a.digest for a in approvals.waiting()] == [OTHER.digest]


@pytest.mark.parametrize("text", ["", "{}", '{"digest": "x", "answer": "perhaps", "by": "y"}'])
def test_a_damaged_answer_is_none(text: str, tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    approvals.ask("1-a", CONFIG, 10.0)
    (tmp_path / "approvals" / "1-a.said.json").write_text(text)
    assert approvals.said("1-a", CONFIG.digest) is None


def test_a_run_that_has_not_asked_has_no_answer(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    with pytest.raises(ConfigError, match=r"no run '1-b' has asked this silo \(none waits\)"):
        approvals.say("1-b", "yes", "somebody")
    approvals.ask("1-a", CONFIG, 10.0)
    with pytest.raises(ConfigError, match="waiting: 1-a"):
        approvals.say("1-b", "yes", "somebody")


def test_an_id_names_no_other_file(tmp_path: Path) -> None:
    Approvals(tmp_path).ask("../../1-a", CONFIG, 10.0)
    assert [p.name for p in (tmp_path / "approvals").iterdir()] == [".._.._1-a.asked.json"]
