"""PEM files, read without knowing what is in them."""

from pathlib import Path

from domo.errors import ConfigError


def read_pem(path: Path, what: str) -> bytes:
    """The bytes of a PEM file.

    Raises:
        ConfigError: It cannot be read, or is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{what}: {path} is not a PEM file")
    return data
