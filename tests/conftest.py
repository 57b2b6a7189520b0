"""What every test starts from: one torch thread, fixed seeds, and no DOMO_* variable but one."""

import logging
import os
import signal
from collections.abc import Generator, Iterator

import pytest
import torch
from hypothesis import settings

from domo.ops.logs import StderrHandler, log_context

os.environ["DOMO_CLIENT_POLICY"] = "open"  # small runs; test_policy.py has others

SET_BY_COMMANDS = ("", "domo.tasks", "alembic", "uvicorn", "httpx", "httpcore")
"""Loggers whose level a command sets, for its whole process; "" is the root."""

# Where nohup or a shell's `&` has started the tests, what they start would ignore these as well.
for _ignored, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, _handler)

settings.register_profile("domo", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("domo")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("DOMO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOMO_CLIENT_POLICY", "open")


@pytest.fixture(autouse=True)
def _repeatable_torch() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """What a command sets up is undone, also by a fixture of several tests."""
    root = logging.getLogger()
    handlers = [h for h in root.handlers if not isinstance(h, StderrHandler)]
    root.handlers[:] = handlers
    levels = {name: logging.getLogger(name).level for name in SET_BY_COMMANDS}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(False)
    log_context(run=None, round=None, silo=None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test may log what is no UTF-8; what is captured has to pass between processes."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report
