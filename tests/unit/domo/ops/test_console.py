"""Errors as one line with an exit code."""

import pytest

from domo.errors import ConfigError, DivergenceError, TaskError, TransportError
from domo.ops.console import friendly_errors, say
from domo.ops.findings import Report, problem
from domo.ops.logs import setup_logging


def exit_of(error: BaseException) -> int:
    with pytest.raises(SystemExit) as caught, friendly_errors():
        raise error
    return caught.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("f.toml: [[runs]] missing"), 2),
        (TaskError("no task"), 2),
        (DivergenceError("not finite", 3), 1),
        (TransportError("nobody there"), 1),
    ],
)
def test_a_users_fault_is_one_line(error, code, capsys):
    assert exit_of(error) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: {error}\n")


def test_long_lines_are_not_cut(capsys):
    exit_of(ConfigError("word " * 60))
    assert capsys.readouterr().err.count("\n") == 1


def test_no_line_of_an_error_looks_like_one_of_its_own(capsys):
    exit_of(ConfigError("2 faults\n  one\nerror: your licence ended\n\x1b[2Jtwo\u2028three"))
    lines = capsys.readouterr().err.split("\n")
    assert lines == ["error: 2 faults", "  one", "  error: your licence ended", "  two three", ""]


def test_a_task_s_name_is_no_smiley_and_what_it_raises_moves_no_cursor(capsys):
    say("my:B: a model; tasks:Heart: another")
    assert capsys.readouterr().out == "my:B: a model; tasks:Heart: another\n"
    report = Report(quiet=True)
    report.add("dummy round", problem("ValueError: \x1b[31mred", "mend it"))
    report.close("good")
    assert "\x1b[31mred" not in capsys.readouterr().out


def test_a_finding_is_one_line_as_a_certificate_may_say_anything():
    found = problem("its certificate is for a\n13:00:00 INFO  forged\x1b[2J", "mend\nit" * 999)
    assert found.text == "its certificate is for a 13:00:00 INFO forged"
    assert len(found.mend) == 1000


def test_operating_system_and_interrupt(capsys):
    assert exit_of(PermissionError(13, "Permission denied", "/etc/x")) == 1
    assert capsys.readouterr().err == (
        "error: Permission denied (/etc/x): its owner or its permissions do not allow it to this "
        "user\n"
    )
    assert exit_of(OSError(28, "No space left on device")) == 1
    assert capsys.readouterr().err == (
        "error: No space left on device: make room there (df -h, and df -i for the number of "
        "files)\n"
    )
    assert exit_of(KeyboardInterrupt()) == 130


def test_bugs_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), friendly_errors():
        raise ZeroDivisionError
    with pytest.raises(OSError, match="no name"), friendly_errors():
        raise OSError("no name")


def test_a_pipe_that_nobody_reads_is_left_to_typer():
    with pytest.raises(BrokenPipeError), friendly_errors():
        raise BrokenPipeError(32, "Broken pipe")


def test_as_a_decorator_it_keeps_the_function():
    @friendly_errors()
    def command(a: int) -> int:
        """Help."""
        return a

    assert (command(3), command.__doc__) == (3, "Help.")


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("DOMO_LOG_LEVEL", "debug")
    setup_logging()
    exit_of(ConfigError("bad"))
    assert "Traceback" in capsys.readouterr().err
