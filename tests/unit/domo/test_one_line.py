"""Text of a peer becomes one line that no terminal obeys, and no reader is led astray by."""

import random
import time
import unicodedata

import pytest

from domo.names import MOST_MARKS, MOST_TEXT, one_line, printable, prints
from tests.support.hostile import ALPHABETS, hostile


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("all is well", "all is well"),
        ("Größe 3 µm, naïve café", "Größe 3 µm, naïve café"),
        ("日本語, עברית, हिन्दी, Việt", "日本語, עברית, हिन्दी, Việt"),
        ("lost\n13:00:00 INFO  [r] FINISHED", "lost 13:00:00 INFO [r] FINISHED"),
        ("a\r\nb\tc\x0bd\x0ce\x85f\u2028g\u2029h", "a b c d e f g h"),
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;Y3VybA==\x07clip\x1b]0;title\x1b\\board", "clipboard"),
        ("\x9b2Jold\x9d0;t\x9c", "old"),
        ("\x1b]0;no end, and still read", "0;no end, and still read"),
        ("\x1bcreset\x1b(B", "reset(B"),
        ("\u202egnp.exe\u202c \u2066x\u2069", "gnp.exe x"),
        ("pass\u200bwo\u200drd\ufeff\u00ad", "password"),
        ("\u3164\u115f\ufe0fblank\u034f", "blank"),
        ("a\u00a0b\u2003c\u3000d\u2800e", "a b c d e"),
        ("\ud800 \ue000 \U000f0000 \u0378 \uffff", "? ? ? ? ?"),
        ("\u0301\u0301first", "first"),
        ("z" + "\u0335" * 200 + "algo", "z" + "\u0335" * MOST_MARKS + "algo"),
        ("\0a\x7fb\x80c", "a b c"),
        ("   ", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_it(text: str, line: str) -> None:
    assert one_line(text) == line


def test_it_is_at_most_so_long_and_says_where_it_is_cut() -> None:
    assert one_line("x" * MOST_TEXT) == "x" * MOST_TEXT
    assert one_line("x" * (MOST_TEXT + 1)) == "x" * (MOST_TEXT - 3) + "..."
    assert one_line("word " * 100, 12) == "word word..."
    assert one_line("\n" * 50 + "x" * 12, 12) == "x" * 12
    assert one_line("\n" * 1000 + "hidden", 12) == "..."
    assert one_line("x" * 1000, None) == "x" * 1000


@pytest.mark.parametrize("name", ALPHABETS)
def test_a_second_time_changes_nothing(name: str) -> None:
    rng = random.Random(name)
    for _ in range(300):
        text = hostile(rng, name)
        line = one_line(text)
        assert one_line(line) == line
        assert printable(line) == line
        assert len(line) <= MOST_TEXT
        assert len(line.splitlines()) <= 1
        assert all(unicodedata.category(c)[0] != "C" for c in line), ascii(line)
        assert line.isprintable()
        line.encode()
        assert one_line(text, None) == one_line(one_line(text, None), None)
        lines = printable(text)
        assert lines.count("\n") == text.count("\n")
        assert printable(lines) == lines


def test_a_megabyte_of_the_worst_takes_no_time() -> None:
    began = time.process_time()
    for text in ("\x9d" * 1_000_000, "\x1b[" * 500_000, "\x9b0" * 500_000, "\u0335" * 1_000_000):
        one_line(text)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("text", ["", "auc", "left  lung", "größe µm", "日本語", "हिन्दी"])
def test_what_prints_as_it_is(text: str) -> None:
    assert prints(text)


@pytest.mark.parametrize(
    "text", ["a\n", "a\u202e", "a" + "\u0335" * 9, "\u3164", "\u0301a", "\ud800"]
)
def test_what_does_not(text: str) -> None:
    assert not prints(text)
