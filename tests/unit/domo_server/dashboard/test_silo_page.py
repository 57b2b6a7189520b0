import pytest

from domo_server.dashboard.silo_page import OTHER, advice_on


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("out of memory: CUDA out of memory. Tried to allocate 2 GiB", "batch_size"),
        ("OSError: [Errno 28] No space left on device", "makes room"),
        ("no data was given to this silo (train.npz and test.npz)", "--data"),
        ("the run trains 'a:B', which is not on this silo's list (digits)", "--task"),
        ("enrolment refused: the silo's model does not match the run's: w", "same version"),
        ("train_data of the task a:B failed: KeyError: 'x'", "doctor --task"),
        ("update refused: 12 of its values are not finite", "local_lr"),
        ("update refused: its norm 9e3 is 100 times the median of the others'", "norm_factor"),
        ("enrolment refused: site-a has 0 samples", "what the text names"),
        ("KeyError: 'x'", OTHER),
    ],
)
def test_what_to_do(error: str, words: str) -> None:
    advice = advice_on(error)
    assert advice is not None
    assert words in advice


@pytest.mark.parametrize("error", [None, ""])
def test_nothing_to_do(error: str | None) -> None:
    assert advice_on(error) is None
