"""What crosses the wire: small, checked, and the same text for the same meaning."""

import json

import pytest
from pydantic import ValidationError

from domo.errors import ProtocolError
from domo.inputs.form import InputForm
from domo.meaning.value import MAX_BYTES, NOTHING, Meaning

FULL = Meaning(
    classes=("Katze", "Kätzchen"),
    input=InputForm((3, None, 32), channels="RGB", values="0..1", mean=(0.5,), std=(0.25,)),
    version="2",
    labels=(0, 1),
    kind="around 0",
)


def test_there_and_back() -> None:
    assert Meaning.from_json(FULL.to_json()) == FULL
    assert Meaning.from_json(FULL.to_json()).digest == FULL.digest
    assert NOTHING.to_json() == "{}"
    assert not NOTHING.said
    assert FULL.said


def test_one_text_for_one_meaning() -> None:
    """Digests of stored rows and of peers are compared: this text stays as it is."""
    assert Meaning(classes=("a", "b"), input=InputForm((8, 8), dtype="float32")).to_json() == (
        '{"classes":["a","b"],"input":{"dtype":"float32","shape":[8,8]}}'
    )


def test_what_a_newer_peer_says_besides_is_not_said() -> None:
    text = json.dumps({"classes": ["a", "b"], "units": "mm", "input": {"shape": [8], "axes": "x"}})
    assert Meaning.from_json(text) == Meaning(classes=("a", "b"), input=InputForm((8,)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ("[]]", "Extra data"),
        ("7", "not iterable"),
        ('{"classes": 7}', "classes"),
        ('{"classes": ["a", "a"]}', "names the class a twice"),
        ('{"classes": ["a", ""]}', "at least 1 character"),
        ('{"classes": ["a", "b\\u001b[31m"]}', "one line of printable characters"),
        ('{"classes": ["a", "b\\nc"]}', "one line of printable characters"),
        ('{"classes": ["%s", "b"]}' % ("x" * 201), "at most 200 characters"),
        ('{"version": "\\ud800"}', ""),
        ('{"num_classes": -1}', "num_classes"),
        ('{"input": {"shape": [-3]}}', "shape"),
        ('{"input": {"mean": [NaN]}}', "finite"),
        ('{"input": {"mean": [Infinity]}}', "finite"),
        ('{"input": [1]}', ""),
        ('{"labels": [1]}', "labels"),
        ('{"labels": [0, 1e300]}', "labels"),
        ('{"kind": "huge"}', "kind"),
        ("[" * 100_000, "cannot be read"),
        (json.dumps({"classes": [hex(i) for i in range(10_001)]}), ""),
        (" " * (MAX_BYTES + 1), f"more than {MAX_BYTES} bytes"),
        ("é" * (MAX_BYTES // 2 + 1), f"more than {MAX_BYTES} bytes"),
    ],
)
def test_what_a_peer_may_not_say(text: str, why: str) -> None:
    with pytest.raises(ProtocolError, match="what data mean cannot be read") as told:
        Meaning.from_json(text)
    assert why in str(told.value)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 500


def test_a_slip_in_a_form_is_said() -> None:
    with pytest.raises(ValidationError, match="size"):
        InputForm(size=(3, 8, 8))  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="mean"):
        InputForm((3,), mean=("much",))  # type: ignore[arg-type]


def test_filled_takes_what_is_not_said() -> None:
    own = Meaning(classes=("a", "b"), input=InputForm(channels="RGB"))
    other = Meaning(
        classes=("c", "d"), version="3", input=InputForm((3, 8, 8), channels="BGR"), labels=(0, 1)
    )
    assert own.filled(other) == Meaning(
        classes=("a", "b"), version="3", input=InputForm((3, 8, 8), channels="RGB"), labels=(0, 1)
    )
    assert own.filled(NOTHING) == own
    assert NOTHING.filled(own) == own
