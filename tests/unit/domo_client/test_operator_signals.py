import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from domo.errors import TaskError
from domo_client.operator_signals import OWN, Stopped, hang_up, listen, users_code


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


@pytest.mark.usefixtures("_listening")
def test_a_terminal_that_is_closed_is_no_fault_of_the_task() -> None:
    with pytest.raises(Stopped, match="its terminal was closed"), users_code():
        hang_up()


@pytest.mark.usefixtures("_listening")
def test_who_else_hears_of_signals_does_so_after_a_task_with_a_loop_of_its_own() -> None:
    async def own() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, print)
        loop.remove_signal_handler(signal.SIGUSR1)

    hears, tells = os.pipe()
    os.set_blocking(tells, False)
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    try:
        with users_code():
            asyncio.run(own())
        assert signal.set_wakeup_fd(-1) == tells
    finally:
        signal.set_wakeup_fd(before)
        os.close(hears)
        os.close(tells)
