"""A silo's own secret, and what is drawn with it: noise for an update, an order of its samples.

Who knows the secret can draw both again; the coordinator cannot.
"""

import hashlib
import hmac
import math
import secrets
from pathlib import Path

import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from torch import Tensor

from domo.errors import StateError
from domo.fold import blocks
from domo.model.flat import byte_view
from domo_client.state.files import replace

FILE = "policy-secret"
KEY_SIZE = 32
UINT32 = 1 << 32


class Secret:
    """A silo's secret; made where there is none.

    Args:
        folder: The silo's state folder.

    Raises:
        StateError: The file cannot be made, or is damaged: with a new one the same updates would
            come out otherwise.
    """

    def __init__(self, folder: Path):
        path = folder / FILE
        try:
            if not path.exists():
                replace(path, secrets.token_hex(KEY_SIZE).encode(), durable=True)
            self._key = bytes.fromhex(path.read_text(encoding="ascii"))
        except OSError as error:
            raise StateError(f"{path}: {error.strerror}") from None
        except ValueError:
            self._key = b""
        if len(self._key) != KEY_SIZE:
            raise StateError(
                f"{path} is damaged; restore it, or delete it: updates are then made with other "
                "noise and another order of the samples"
            )

    def order_seed(self, run_id: str, config_digest: str) -> int:
        """A seed in [0, 2^63) for all that is drawn in a run here, in place of the run's."""
        drawn = self._draw("order", f"{run_id}|{config_digest}".encode())
        return int.from_bytes(drawn[:8], "little") >> 1

    def _draw(self, purpose: str, what: bytes) -> bytes:
        return hmac.digest(self._key, f"domo {purpose}|".encode() + what, "sha256")

    @torch.no_grad()
    def protect(self, update: Tensor, clip: float, noise: float | None) -> float:
        """Shorten an update to a norm of at most `clip`, and add Gaussian noise; in its memory.

        The noise follows from the secret and the shortened update: the same update leaves with the
        same noise however often it is made, and no two updates share theirs, so none of it cancels
        out. It comes from ChaCha20, as entries that are 0 show theirs bare: from a generator of
        simulations they would tell the rest.

        Args:
            update: d_k, shape (n,), float32, gradient units.
            clip: C.
            noise: Standard deviation in each entry, as a part of C; None: no noise.

        Returns:
            The norm that it had.
        """
        norm = math.sqrt(
            sum(float(update[a:b].double().square().sum()) for a, b in _blocks(update))
        )
        if norm > clip:
            update.mul_(clip / norm)
        if noise:
            digest = hashlib.sha256(byte_view(update)).digest()
            stream = Cipher(ChaCha20(self._draw("noise", digest), bytes(16)), None).encryptor()
            for a, b in _blocks(update):
                half = (b - a + 1) // 2
                drawn = bytearray(stream.update(bytes(8 * half)))
                whole = torch.frombuffer(drawn, dtype=torch.int32).view(2, half).double()
                u = (whole + (UINT32 // 2 + 0.5)) / UINT32  # in (0, 1)
                radius = (-2 * u[0].log()).sqrt_()
                angle = u[1].mul_(2 * math.pi)
                pair = torch.cat((radius * angle.cos(), radius * angle.sin()))[: b - a]
                update[a:b].add_((noise * clip * pair).float())
        return norm


def _blocks(vector: Tensor) -> list[tuple[int, int]]:
    return list(blocks(vector.numel()))
