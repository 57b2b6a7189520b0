"""What a silo writes has 300 characters in an event, however many fields it fills."""

from typing import Any

import pytest

from domo.errors import MeaningMismatchError
from domo.inputs.form import InputForm
from domo.meaning.value import Meaning
from domo.names import MOST_TEXT
from domo.run_config import RunConfig
from domo_server.rounds.agreement import Agreement
from domo_server.runs.roster import Roster
from domo_server.store.rows import Enrolment

LONG = "x" * 200
MARK = "x"
CHATTY = Meaning(
    classes=tuple(f"{LONG[:-4]}{i:04}" for i in range(40)),
    input=InputForm(channels=LONG, dtype=LONG, values=LONG, aspect=LONG),
    version=LONG,
    code=LONG,
)
CONFIG = RunConfig(task="own:Loop", num_rounds=1, num_silos=2, same_code=True)


def written_by_it(text: str) -> int:
    return text.count(MARK)


def test_a_meaning_that_differs_in_everything() -> None:
    nothing: Any = None
    roster = Roster("1-r", CONFIG, nothing, nothing, {})
    form = InputForm(channels="RGB", dtype="float32", values="0..1", aspect="crop")
    first = Meaning(classes=("cat", "dog"), input=form, version="1", code="abc")
    roster.load({"site-a": Enrolment("trainer", 1, 1, first)}, None)
    with pytest.raises(MeaningMismatchError) as caught:
        roster.compare("site-b", CHATTY)
    text = str(caught.value)
    assert text.startswith("the data of site-b mean something else than the run's: ")
    assert 200 < written_by_it(text) <= MOST_TEXT


def test_the_first_word_and_a_code_that_changes() -> None:
    enrolled = {"site-a": Enrolment("trainer", 1, 1, CHATTY)}
    agreement = Agreement(CONFIG, enrolled, {})
    told = agreement.hear("site-a")
    before = Meaning(code="x" * 199)
    told += agreement.other_code("site-a", before)
    assert len(told) >= 2
    assert all(200 < written_by_it(text) <= MOST_TEXT for text in told)
