"""Texts that may leave a silo."""

from typing import TypeVar

from domo.errors import DomoError, TaskError

E = TypeVar("E", bound=DomoError)


class Public(str):
    """A text that may leave this silo: domo's own words, names in the user's code, numbers.

    Whatever takes a text to the coordinator takes this and no `str`, so that nobody sends one
    without having looked at what it is made of: no file's name, no value of the data, no text of a
    foreign exception. What is wrong is made public by `domo.outside.faults.outside`.
    """

    __slots__ = ()


NO_TEXT = Public()
"""Nothing is said."""


def saying(error: E, elsewhere: str) -> E:
    """An error of which this is said elsewhere, in place of what kind it is."""
    error.elsewhere = elsewhere
    return error


def public(error: E) -> E:
    """An error whose text may be read elsewhere: see `Public` for what may be in it."""
    return saying(error, str(error))


def task_error(text: str) -> TaskError:
    """One that is said elsewhere as it is: domo's words about the user's code, and numbers."""
    return public(TaskError(text))
