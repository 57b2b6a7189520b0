import yaml

from domo.model.card import CardPoint
from domo.model.card_text import markdown
from tests.unit.domo.model.test_card import card


def head(text: str) -> dict[str, object]:
    found = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def test_the_hub_reads_the_head_and_nothing_is_made_up() -> None:
    text = markdown(card({}))
    assert head(text)["metrics"] == ["accuracy", "loss"]
    assert "license" not in head(text)
    assert text.count("not stated.") == 4
    stated = {
        "licence": "Apache-2.0",
        "data_licence": "on request",
        "limits": "adults",
        "notes": "N",
    }
    text = markdown(card(stated))
    assert head(text)["license"] == "apache-2.0"
    assert text.count("not stated.") == 1
    assert "Licence of the data: on request" in text
    own = head(markdown(card({"licence": 'ours: "v1"\n- x'})))
    assert (own["license"], own["license_name"]) == ("other", 'ours: "v1"\n- x')


def test_how_long_it_trained_is_told_where_it_is_known() -> None:
    assert "| trained for (s) | 12.5 |" in markdown(card({}, training_s=12.5))
    assert "trained for" not in markdown(card({}))


def test_names_from_silos_are_text_and_a_long_table_is_thinned() -> None:
    points = [CardPoint(model_index=i, metrics={"a|<b>\nc": 1.0}) for i in range(1, 202)]
    text = markdown(card({"num_rounds": 201}, round_index=201, points=points))
    assert r"| model | a\|\<b\> c | silos |" in text
    assert 40 < text.count("| x_") <= 51
    assert "| x_201 | 1 |" in text
