"""The stages at which code or data of the user's run: what is said of them, here and elsewhere.

What leaves a silo is the key of a stage and the key of an activity; the words are the reader's.
"""

from collections.abc import Mapping

STAGES: Mapping[str, str] = {
    "state": "using its state folder",
    "task": "loading the code of its task",
    "train-data": "loading its training data",
    "test-data": "loading its test data",
    "meaning": "looking at what its data mean",
    "model": "building its model",
    "device": "moving its model to its device",
    "look": "trying its task on one batch",
    "silos": "waiting for the processes of its silos",
    "round": "running its own code around a round",
    "plan": "planning its batches",
    "batch": "waiting for a batch of its data",
    "workers": "waiting for a batch from its loader processes",
    "step": "computing a training step",
    "test": "testing the model",
}
"""Key -> what a silo is doing, in words."""

ACTIVITIES: Mapping[str, str] = {
    "moves": "its process computes or reads",
    "still": "nothing is computed or read there",
    "blocked": "its disk or network drive does not answer",
}
"""Key -> what its processes are seen to do meanwhile."""

ADVICE: Mapping[str, str] = {
    "moves": "it computes or reads, so it may just be slow",
    "still": "nothing is computed or read: it waits for something, such as a lock, a network, "
    "a drive, or an answer at the keyboard",
    "blocked": "the system waits for a disk or a network drive: is it mounted, does it answer?",
}
"""Key -> what is said of it at the silo itself."""


def told(stage: str, activity: str = "") -> str:
    """Stage and activity, in words."""
    seen = f" ({ACTIVITIES[activity]})" if activity else ""
    return f"{STAGES[stage]}{seen}"
