import json

from domo.model.card import (
    CARD,
    CardPoint,
    CardSilo,
    ModelCard,
    card_in,
    of_config,
)
from domo.model.card_text import markdown
from domo.run_config import RunConfig


def card(config: dict[str, object], **fields: object) -> ModelCard:
    run = RunConfig.model_validate({"task": "digits", "num_rounds": 4, "num_silos": 2} | config)
    values = {
        "round_index": 3,
        "silos": [CardSilo(silo_id="site-a", num_samples=10, rounds=3)],
        "points": [
            CardPoint(model_index=1, metrics={"accuracy": 0.9}, num_silos=1),
            CardPoint(model_index=2, metrics={"accuracy": 0.8, "loss": 0.5}, num_silos=2),
            CardPoint(model_index=3, metrics={"accuracy": 0.7, "loss": 0.4}, num_silos=2),
        ],
        "layout_digest": "aa",
        "software_version": "0",
    }
    return ModelCard.model_validate(of_config(run) | values | fields)


def test_the_constants_are_those_that_the_method_uses_with_the_papers_letters() -> None:
    domo = {c.name: (c.symbol, c.value) for c in card({"local_steps": 5}).constants}
    assert domo["server_momentum"] == ("mu_s", 0.9)
    assert domo["fusion_coef"] == ("beta", 0.9)
    assert domo["local_steps"] == ("P", 5)
    assert not {"local_epochs", "lr_decay", "local_lrs"} & domo.keys()
    plain = {c.name: c.value for c in card({"method": "fedavg"}).constants}
    assert plain["local_epochs"] == 1.0
    assert not {"server_momentum", "local_momentum", "fusion_coef"} & plain.keys()


def test_the_best_is_of_models_that_all_silos_tested() -> None:
    it = card({})
    best = it.best("accuracy")
    assert best is not None
    assert best.model_index == 2
    assert it.best("seen") is None
    assert it.own is not None
    assert "- accuracy: 0.7 (this model) best 0.8 (x_2)" in markdown(it)


def test_by_what_the_run_is_judged_by_the_best_is_the_one_that_was_kept() -> None:
    it = markdown(card({}, primary_metric="accuracy", best_index=3, best_value=0.7))
    assert "Judged by accuracy, the best of the run is this model." in it
    assert "- accuracy: 0.7 (this model) best 0.7 (x_3)" in it
    odd = [CardPoint(model_index=i, metrics={"odd": 1.0 * i}, num_silos=2) for i in range(4)]
    it = markdown(card({}, points=odd, primary_metric="odd", best_index=1, best_value=1.0))
    assert "- odd: 3 (this model) best 1 (x_1)" in it


def test_a_card_comes_back_from_a_file_and_a_bad_one_is_none() -> None:
    it = card({"notes": "é"})
    assert card_in({CARD: it.model_dump_json()}) == it
    assert card_in({CARD: json.dumps({"name": 1})}) is None
    assert card_in({}) is None
