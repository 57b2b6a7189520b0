import pytest

from domo_server.dashboard.silo_page import OTHER, advice_on


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            "out of memory: CUDA out of memory. Tried to allocate 2 GiB",
            "out-of-memory",
            "batch_size",
        ),
        ("OSError: [Errno 28] No space left on device", "disk-full", "makes room"),
        ("no data was given to this silo (train.npz and test.npz)", "no-data", "--data"),
        ("the data folder /d is empty. It should hold train.npz", "data", "--data"),
        ("the run trains 'a:B', which is not on this silo's list", "task-not-allowed", "--task"),
        ("enrolment refused: the silo's model does not match", "layout-mismatch", "same version"),
        ("domo 2 at this silo does not understand the run", "unknown-run", "version of domo"),
        ("train_data of the task a:B failed: KeyError: 'x'", "task", "doctor --task"),
        ("update refused: 12 of its values are not finite", "divergence", "local_lr"),
        ("update refused: its norm 9e3 is 100 times the median", "outlier", "norm_factor"),
        ("enrolment refused: site-a has 0 samples", "config", "what the text names"),
        ("KeyError: 'x'", None, OTHER),
        ("something of a newer silo", "newer", OTHER),
    ],
)
def test_what_to_do(error: str, code: str | None, words: str) -> None:
    advice = advice_on(error, code)
    assert advice is not None
    assert words in advice


@pytest.mark.parametrize("error", [None, ""])
def test_nothing_to_do(error: str | None) -> None:
    assert advice_on(error, "data") is None


@pytest.mark.parametrize("code", ["divergence", "sample", None])
def test_what_lasts_is_not_said_to_try_again_by_itself(code: str | None) -> None:
    advice = advice_on("it failed", code, lasts=True)
    assert advice is not None
    assert "tries again" not in advice
    assert advice.endswith("mend it and start domo-client again, or drop the silo.")
    assert len(advice) > 150 or code is None


@pytest.mark.parametrize("code", ["out-of-memory", "disk-full", None])
def test_a_process_that_is_gone_tries_nothing_by_itself(code: str | None) -> None:
    there, gone = advice_on("it failed", code), advice_on("it failed", code, offline=True)
    assert there is not None
    assert gone is not None
    assert "It tries again by itself." in there
    assert "by itself" not in gone
    assert "its operator starts it again" in gone
