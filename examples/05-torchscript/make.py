#!/usr/bin/env python3
"""Regenerates model.pt: a small TorchScript module with two inputs and two outputs.

    pip install torch
    python examples/05-torchscript/make.py

``total`` is a + b, and ``largest`` is the largest element of each row of it.
"""

import pathlib

import torch

HERE = pathlib.Path(__file__).resolve().parent


class Total(torch.nn.Module):
    """Adds two matrices and finds the largest element of each row."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        """a, b: [n, 3]; total: [n, 3]; largest: [n]."""
        total = a + b
        return {"total": total, "largest": total.amax(1)}


def main() -> None:
    """Script the module and write it."""
    torch.jit.save(torch.jit.script(Total()), HERE / "1" / "model.pt")


if __name__ == "__main__":
    main()
