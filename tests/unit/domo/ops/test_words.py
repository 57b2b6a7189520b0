from pathlib import Path

import pytest

from domo.ops.words import counted, typed


@pytest.mark.parametrize(
    ("num", "words", "text"),
    [
        (1, ("run",), "1 run"),
        (0, ("run",), "0 runs"),
        (2, ("run",), "2 runs"),
        (1, ("loss", "losses"), "1 loss"),
        (3, ("loss", "losses"), "3 losses"),
    ],
)
def test_one_and_many(num: int, words: tuple[str, ...], text: str) -> None:
    assert counted(num, *words) == text


def test_a_command_can_be_typed_as_it_is_told() -> None:
    told = typed("domo", "watch", "3-a", server=None, token_file=Path("/srv/my state/token"))
    assert told == "domo watch 3-a --token-file '/srv/my state/token'"
