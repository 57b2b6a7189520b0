"""Codes of errors: every class has its own, and the page of error texts lists them."""

import ast
import errno
import pickle
import re
from pathlib import Path

import pytest
import torch

from domo.errors import CODES_BESIDE, ConfigError, DivergenceError, DomoError, Fault, code_of

ROOT = Path(__file__).parents[3]


def classes() -> dict[str, str | None]:
    """Every class of an error in the source, however far below `DomoError`, and its own code."""
    bases: dict[str, set[str]] = {}
    codes: dict[str, str | None] = {}
    packages = (ROOT / part for part in ("core", "proto", "server", "client"))
    for path in (path for package in packages for path in package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            above = {ast.unparse(b).rsplit(".", 1)[-1] for b in node.bases}
            bases[node.name] = above - {node.name}
            own = [
                s.value.value
                for s in node.body
                if isinstance(s, ast.Assign)
                and ast.unparse(s.targets[0]) == "code"
                and isinstance(s.value, ast.Constant)
            ]
            codes[node.name] = own[0] if own else None

    def is_ours(name: str) -> bool:
        return name == "DomoError" or any(is_ours(base) for base in bases.get(name, ()))

    return {name: code for name, code in codes.items() if is_ours(name)}


def test_every_class_has_a_code_of_its_own() -> None:
    found = classes()
    assert {"DomoError", "DataError", "SessionError", "MissingDataError"} <= set(found)
    assert [name for name, code in found.items() if code is None] == []
    codes = [*found.values(), *CODES_BESIDE]
    assert sorted(set(codes)) == sorted(codes)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{0,63}", code or "") for code in codes)


def test_the_page_of_error_texts_lists_the_codes() -> None:
    text = (ROOT / "docs" / "error-texts.md").read_text(encoding="utf-8")
    section = text.split("## Codes\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    told = [code for row in rows for code in re.findall(r"`([\w-]+)`", row)]
    assert sorted(told) == sorted([*map(str, classes().values()), *CODES_BESIDE])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DomoError("x"), "error"),
        (DivergenceError("x", 3), "divergence"),
        (MemoryError(), "out-of-memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out-of-memory"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk-full"),
        (OSError(errno.EACCES, "Permission denied"), ""),
        (KeyError("x"), ""),
    ],
)
def test_what_kind_an_exception_is(error: Exception, code: str) -> None:
    assert code_of(error) == code


def test_an_error_that_was_made_of_a_full_disk_is_of_that_kind() -> None:
    error = ConfigError("it cannot be written")
    error.__cause__ = OSError(errno.EDQUOT, "Disk quota exceeded")
    assert code_of(error) == "disk-full"


def test_an_error_passes_between_processes_with_its_data() -> None:
    error = ConfigError("2 faults", [Fault("a", "a: missing"), Fault("b", "b: unknown key", "a?")])
    error.code = "other"
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.faults, back.code) == ("2 faults", error.faults, "other")
    assert [str(fault) for fault in back.faults] == ["a: missing", "b: unknown key; a?"]
