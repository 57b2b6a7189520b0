"""What the flags of a silo mean: its device, its part of a public dataset."""

import torch

from domo.errors import ConfigError


def parse_device(text: str) -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:1`.

    Raises:
        ConfigError: No such device here.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"--device {text}: not usable here ({first}); try auto or cpu") from None
    return device


def check_workers(count: int) -> None:
    """Whether loader processes can be had here.

    Raises:
        ConfigError: They cannot, such as in a container without shared memory.
    """
    if not count:
        return
    try:
        torch.multiprocessing.get_context().Lock()
    except OSError as error:
        raise ConfigError(
            f"--workers {count}: no loader process can run here, as there is no shared memory that "
            f"can be written (/dev/shm: {error.strerror}); mount it, or give --workers 0"
        ) from None


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`i/K`, 0 <= i < K.

    Raises:
        ConfigError: Not of that form.
    """
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"--shard must be i/K with 0 <= i < K, such as 0/4; got {text!r}")
    return int(index), int(count)
