"""The digest of a task's code."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from domo.meaning.code import _of_module, task_code
from domo.tasks import load_task

TASK = "import math\nimport {0}_loss\n\n\nclass Task:\n    scale = 2.0\n"
LOSS = "FACTOR = 1.0\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """The digest of a task of these files, imported anew."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(**files: bytes) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_bytes(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        _of_module.cache_clear()
        module = importlib.import_module(next(iter(files)))
        digest = task_code(module.Task())
        for name in files:
            sys.modules.pop(name, None)
        return digest

    yield make
    _of_module.cache_clear()


def test_of_one_file_it_is_what_sha256sum_prints(made: Callable[..., str]) -> None:
    text = b"class Task:\n    rate = 0.1\n"
    digest = made(alone_task=text)
    assert digest == hashlib.sha256(text).hexdigest()[:16]
    assert made(alone_task=text.replace(b"\n", b"\r\n")) == digest, "as another editor writes it"
    assert made(alone_task=b"\xef\xbb\xbf" + text) == digest
    assert made(alone_task=text.replace(b"0.1", b"0.2")) != digest


def test_files_beside_it_count_where_they_are_used(made: Callable[..., str]) -> None:
    task = TASK.format("beside").encode()
    digest = made(beside_task=task, beside_loss=LOSS.encode())
    assert made(beside_task=task, beside_loss=LOSS.encode()) == digest
    assert made(beside_task=task, beside_loss=b"FACTOR = 2.0\n") != digest
    alone = made(beside_task=b"class Task: ...\n", beside_loss=b"")
    assert alone == made(beside_task=b"class Task: ...\n", beside_loss=b"FACTOR = 2.0\n")


def test_what_comes_with_domo_has_none() -> None:
    assert task_code(load_task("digits")) == ""
    assert task_code(3) == ""
