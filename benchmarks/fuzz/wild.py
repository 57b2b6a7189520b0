"""Input that nobody sane sends: wild protobuf messages, damaged bytes, nested JSON; all by seed."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

F = FieldDescriptor
INTEGERS = (0, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.4e38, -1e300, 5e-324, math.inf, -math.inf, math.nan)
TEXTS = (
    "", "a", "site-a", "../../etc", "a\nb", "\x1b[2J", "\x00", "\u202etxt", "\u2028", "é" * 400,
    "%s%n", "{}", "[]", "null", "-1", "1e400", "=1+1", "<b>", "x" * 5000, "TRAIN", "os:system",
)  # fmt: skip
BITS = {
    F.TYPE_INT32: (-(2**31), 2**31 - 1),
    F.TYPE_SINT32: (-(2**31), 2**31 - 1),
    F.TYPE_UINT32: (0, 2**32 - 1),
    F.TYPE_INT64: (-(2**63), 2**63 - 1),
    F.TYPE_UINT64: (0, 2**64 - 1),
}
DEPTHS = (2, 50, 2000, 100_000)


def value(rng: random.Random, field: FieldDescriptor, known: Mapping[str, Sequence[Any]]) -> Any:
    """One value of a field's type: one that is right there, or one that is not."""
    right = known.get(field.name)
    if right and rng.random() < 0.85:
        return rng.choice(right)
    if field.type in BITS:
        low, high = BITS[field.type]
        return min(max(rng.choice((*INTEGERS, -1, rng.getrandbits(64))), low), high)
    if field.type == F.TYPE_ENUM:
        return rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99, -1))
    if field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        return rng.choice((*FLOATS, rng.uniform(-10, 10)))
    if field.type == F.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == F.TYPE_BYTES:
        return rng.randbytes(rng.choice((0, 1, 15, 16, 16, 16, 17, 64)))
    return text(rng)


def fill(
    rng: random.Random, message: Any, known: Mapping[str, Sequence[Any]], share: float = 0.7
) -> Any:
    """Give each field of a message a value, or none; `known`: right ones, by a field's name."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() > share:
            continue
        repeated = isinstance(getattr(message, field.name), Message) is False and (
            hasattr(getattr(message, field.name), "append")
            or hasattr(getattr(message, field.name), "items")
        )
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(rng, getattr(message, field.name), field, known)
        elif repeated:
            for _ in range(rng.choice((1, 1, 2, 5, 70))):
                if field.message_type is not None:
                    fill(rng, getattr(message, field.name).add(), known, share)
                else:
                    getattr(message, field.name).append(value(rng, field, known))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(rng, getattr(message, field.name), known, share)
        else:
            setattr(message, field.name, value(rng, field, known))
    return message


def _fill_map(rng: random.Random, entries: Any, field: Any, known: Mapping[str, Any]) -> None:
    kinds = field.message_type.fields_by_name
    for _ in range(rng.choice((1, 2, 70))):
        key = rng.choice(("loss", "accuracy", text(rng)))
        if kinds["value"].message_type is not None:
            fill(rng, entries[key], known)
        else:
            entries[key] = value(rng, kinds["value"], known)


def text(rng: random.Random) -> str:
    """A text, mostly a nasty one."""
    if rng.random() < 0.8:
        return rng.choice(TEXTS)
    return "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0xD800)))) for _ in "ab")


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some of them changed, cut, doubled or replaced."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            out[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            del out[at : at + rng.choice((1, 4, 8, 100))]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 8)))
        elif kind == 3:
            out[at : at + 8] = rng.choice(INTEGERS).to_bytes(8, "little")
        else:
            out[at:at] = out[: rng.randrange(64)]
    return bytes(out)


def wild_json(rng: random.Random, good: Any) -> str:
    """JSON near a good value: an entry replaced, dropped, nested without end, or a damaged text."""
    kind = rng.randrange(6)
    if kind == 0:
        depth = rng.choice(DEPTHS)
        return rng.choice(("[", '{"a":')) * depth + rng.choice(("", "]" * depth))
    if kind == 1:
        written = json.dumps(good)
        return damaged(rng, written.encode()).decode("utf-8", "replace")
    changed = json.loads(json.dumps(good))
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(rng, changed)
    written = json.dumps(changed)
    if kind == 2:
        written = written.replace('"@"', rng.choice(("1e999", "9" * 5000, "-0", "NaN", "1e-999")))
    return written


def _change(rng: random.Random, node: Any) -> None:
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.3:
            wild: list[Any] = [
                None, True, "", "@", [], {}, -1, 2**70, 1e308, 0.5, [1] * 3, {"a": 1}, *INTEGERS,
                *TEXTS,
            ]  # fmt: skip
            if rng.random() < 0.1:
                del node[key]
            else:
                node[key] = rng.choice(wild)
            return
        node = node[key]
