import errno
import io
import os
import resource
import sys
from pathlib import Path

import pytest

from domo.errors import DISK_FULL, code_of
from domo.ops import console
from domo.ops.console import in_words
from domo.storage.files import write_at
from domo_client.telemetry.describe import describe


@pytest.mark.parametrize(
    ("number", "cure", "is_full"),
    [
        (errno.ENOSPC, "make room there", True),
        (errno.EDQUOT, "the quota of its user is used up", True),
        (errno.EFBIG, "no file may grow so large there", True),
        (errno.EROFS, "it is mounted read-only", False),
        (errno.EIO, "the disk or the network drive fails", False),
    ],
)
def test_a_disk_is_named_here_with_what_to_do_and_elsewhere_by_its_kind(
    number: int, cure: str, is_full: bool
) -> None:
    error = OSError(number, "It does not", "/srv/silo/pending.bin")
    assert in_words(error).startswith(f"It does not (/srv/silo/pending.bin): {cure}")
    assert (code_of(error) == DISK_FULL) == is_full
    assert describe(error) == f"OSError ({os.strerror(number)})"


def test_a_file_that_may_not_grow_is_an_error_that_names_it_and_no_signal(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = os.open(tmp_path / "vector", os.O_RDWR | os.O_CREAT)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="vector") as caught:
            write_at(file, 0, memoryview(bytes(8192)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.close(file)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "vector"))


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        self.write("")


def test_a_program_goes_on_whose_log_is_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr(sys, "stderr", Full())
    with pytest.raises(OSError, match="No space left"):
        console.say("a result")
    console.go_on_without_log()
    console.say("a line")
    console.complain("a fault")
    sys.stderr.flush()
