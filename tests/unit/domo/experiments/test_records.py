"""Records: whole or not there, of the settings that they name; plans; how long the rest takes."""

import json

import pytest

from domo.errors import ConfigError
from domo.experiments import records
from domo.experiments.cost import rates, time_left
from domo.experiments.recipe import load_recipe
from domo.experiments.records import begin, load_record, save_record, write_whole
from tests.support.recipes import record

RECIPE = load_recipe("alpha-beta")
CELLS = RECIPE.cells("tiny")
CONFIG = CELLS[0].config


def test_there_and_back(tmp_path):
    assert load_record(tmp_path, CONFIG, "exact") is None
    made = record(CONFIG, [0.1, 0.8])
    save_record(tmp_path, CONFIG, made)
    found = load_record(tmp_path, CONFIG, "exact")
    assert found == made
    assert found.final() == 0.8
    assert load_record(tmp_path, CONFIG, "batched") is None
    assert [p.name for p in tmp_path.iterdir()] == [f"{CONFIG.digest}.json"]


def test_a_record_is_synced_and_named_when_it_is_whole(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(records, "sync", lambda handle: seen.append(list(tmp_path.glob("*.json"))))
    save_record(tmp_path, CONFIG, record(CONFIG, [0.1]))
    assert seen == [[]]


def test_a_record_of_other_settings_is_refused(tmp_path):
    save_record(tmp_path, CONFIG, record(CONFIG.model_copy(update={"local_lr": 0.3}), [0.1]))
    with pytest.raises(ConfigError, match=r"local_lr was 0.3, now 0.05.*another --out"):
        load_record(tmp_path, CONFIG, "exact")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_damaged_record_is_said_with_what_to_do(tmp_path, text):
    write_whole(tmp_path / f"{CONFIG.digest}.json", text)
    with pytest.raises(ConfigError, match=r"delete it|another version"):
        load_record(tmp_path, CONFIG, "exact")


def test_a_recipe_goes_on_with_its_settings(tmp_path):
    begin(tmp_path, CELLS, "exact", False)
    begin(tmp_path, CELLS, "exact", False)
    begin(tmp_path, RECIPE.cells("tiny", (5,)), "exact", False)  # more seeds are no change
    other = RECIPE.cells("tiny", (), {"local_lr": 0.1})
    told = r"local_lr was 0.05, now 0.1 .*beta = 1 .*35 more cells.*--afresh"
    with pytest.raises(ConfigError, match=told):
        begin(tmp_path, other, "exact", False)
    with pytest.raises(ConfigError, match="mode was exact, now batched"):
        begin(tmp_path, CELLS, "batched", False)
    begin(tmp_path, other, "exact", True)
    begin(tmp_path, other, "exact", False)
    with pytest.raises(ConfigError, match=r"local_lr was 0\.1, now 0\.05"):
        begin(tmp_path, CELLS, "exact", False)


def test_a_plan_knows_what_a_default_means(tmp_path):
    """A setting that a later version has, and that means what was meant, is no change."""
    begin(tmp_path, CELLS, "exact", False)
    path = tmp_path / records.PLAN
    plan = json.loads(path.read_text())
    assert plan[CELLS[0].key].pop("norm_factor") == 10.0
    assert plan[CELLS[0].key].pop("lr_milestones") == [0.6, 0.8]
    plan[CELLS[1].key].pop("evaluators")
    path.write_text(json.dumps(plan))
    with pytest.raises(ConfigError, match=r"lr_milestones was \[\], now \[0.6, 0.8\] .* 0 more"):
        begin(tmp_path, CELLS, "exact", False)
    plan[CELLS[0].key]["lr_milestones"] = [0.6, 0.8]
    path.write_text(json.dumps(plan))
    begin(tmp_path, CELLS, "exact", False)


def test_a_record_of_an_older_version_counts(tmp_path):
    save_record(tmp_path, CONFIG, record(CONFIG, [0.1, 0.8]))
    path = tmp_path / f"{CONFIG.digest}.json"
    body = json.loads(path.read_text())
    del body["config"]["evaluators"]
    path.write_text(json.dumps(body))
    found = load_record(tmp_path, CONFIG, "exact")
    assert found is not None
    assert found.final() == 0.8


def test_time_left_is_by_task_and_passes():
    made = record(CONFIG, [0.1, 0.8])  # 3 passes in 2 s
    known = rates([made, record(CONFIG, [], "diverged")])
    assert known == {"digits": pytest.approx(2 / 3)}
    assert time_left(CELLS[:6], known) == pytest.approx(12.0)
    assert time_left(CELLS[:6], known, jobs=2) == pytest.approx(6.0)
    assert time_left([], {}) == 0
    assert time_left(CELLS, {"fashion-mnist": 1.0}) is None
