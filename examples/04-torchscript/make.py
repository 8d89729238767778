#!/usr/bin/env python3
"""Re-creates model.pt: a small TorchScript module with two inputs and two outputs.

    pip install torch
    python make.py

``total`` is a + b and ``largest`` its largest element in each row.
"""

import pathlib

import torch

HERE = pathlib.Path(__file__).resolve().parent


class Total(torch.nn.Module):
    """Adds, and finds the largest of each row."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        """a, b: [n, 3]; total: [n, 3]; largest: [n]."""
        total = a + b
        return {"total": total, "largest": total.amax(1)}


def main() -> None:
    """Script the module and write it."""
    torch.jit.save(torch.jit.script(Total()), HERE / "1" / "model.pt")


if __name__ == "__main__":
    main()
