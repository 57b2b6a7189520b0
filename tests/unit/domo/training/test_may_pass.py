"""What a task raises: what may pass by itself, and what will not."""

import builtins
import io
import sys

import pytest

from domo.errors import TaskError
from domo.training.task_errors import may_pass, task_errors


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (EOFError("Compressed file ended before the end-of-stream marker was reached"), True),
        (OSError(5, "Input/output error"), True),
        (MemoryError(), True),
        (ValueError("a wrong label"), False),
    ],
)
def test_what_a_task_raises(error: Exception, passes: bool) -> None:
    with pytest.raises(TaskError) as raised, task_errors("train_data fails"):
        raise error
    assert may_pass(raised.value) is passes


def test_nobody_is_waited_for_who_would_type_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(TaskError) as raised, task_errors("train_data fails"):
        builtins.input()
    assert not may_pass(raised.value)
    assert str(raised.value).endswith("the task asks at the keyboard, and there is none)")
