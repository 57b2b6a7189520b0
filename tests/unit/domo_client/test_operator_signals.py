import os
import signal
from collections.abc import Iterator

import pytest

from domo.errors import TaskError
from domo_client.operator_signals import OWN, Stopped, listen, users_code


@pytest.fixture
def _listening() -> Iterator[None]:
    before = {s: signal.getsignal(s) for s in OWN}
    listen()
    yield
    for s, handler in before.items():
        signal.signal(s, handler)


@pytest.mark.usefixtures("_listening")
@pytest.mark.parametrize("which", OWN)
def test_a_signal_is_the_operators_also_in_code_of_the_users(which: signal.Signals) -> None:
    with pytest.raises(Stopped), users_code():
        os.kill(os.getpid(), which)


@pytest.mark.usefixtures("_listening")
@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit])
def test_what_a_task_raises_itself_is_its_fault(raised: type[BaseException]) -> None:
    with pytest.raises(TaskError, match=f"the task has raised {raised.__name__}"), users_code():
        raise raised


@pytest.mark.usefixtures("_listening")
def test_without_handlers_of_ours_a_keyboard_interrupt_may_be_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), users_code():
        raise KeyboardInterrupt


@pytest.mark.usefixtures("_listening")
def test_handlers_that_a_task_sets_are_gone_afterwards() -> None:
    with users_code():
        for s in OWN:
            signal.signal(s, signal.SIG_IGN)
    for s in OWN:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), s)
