"""A small transformer, and LoRA on its linear layers."""

import torch
from torch import nn
from torch.nn import functional

ROWS, PIXELS, CLASSES = 8, 8, 10


class LoRALinear(nn.Linear):
    """A linear layer with W + s*B*A in place of W (Hu et al., 2021, arXiv:2106.09685).

    Tensors of the base have the names of a plain `nn.Linear`, so its weights load as they are.

    Args:
        inputs: Width of what comes in.
        outputs: Width of what goes out.
        rank: Rows of A; 0: no adapter, a plain layer.
        scale: s, in units of 1/rank.
    """

    def __init__(self, inputs: int, outputs: int, rank: int, scale: float = 8.0):
        super().__init__(inputs, outputs)
        self.scale = scale / max(rank, 1)
        self.lora_a = self.lora_b = None
        if rank:
            self.lora_a = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
            self.lora_b = nn.Parameter(torch.zeros(outputs, rank))  # B*A = 0: it begins as the base

    def forward(self, x):
        """Shape (..., inputs) to (..., outputs)."""
        out = super().forward(x)
        if self.lora_a is None:
            return out
        return out + self.scale * (x @ self.lora_a.T) @ self.lora_b.T


class Block(nn.Module):
    """Attention and MLP, each after a norm and beside the stream."""

    def __init__(self, width: int, heads: int, rank: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = LoRALinear(width, 3 * width, rank)
        self.out = LoRALinear(width, width, rank)
        self.up = LoRALinear(width, 4 * width, rank)
        self.down = LoRALinear(4 * width, width, rank)

    def forward(self, x):
        """Shape (batch, tokens, width), as it goes out."""
        batch, tokens, width = x.shape
        split = self.qkv(self.norm_1(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Reader(nn.Module):
    """Reads an image of 8x8 as a sequence of 8 tokens, its rows, and tells the digit.

    Args:
        rank: Of the adapters; 0: none.
        width: Of a token.
        depth: Blocks.
    """

    def __init__(self, rank: int = 0, width: int = 64, depth: int = 2):
        super().__init__()
        self.token = nn.Linear(PIXELS, width)
        self.place = nn.Parameter(0.02 * torch.randn(ROWS, width))
        self.blocks = nn.Sequential(*(Block(width, 4, rank) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images):
        """Images of shape (batch, 1, 8, 8) to logits of shape (batch, 10)."""
        x = self.blocks(self.token(images.squeeze(1)) + self.place)
        return self.head(self.norm(x).mean(1))
