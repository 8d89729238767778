"""The benchmarks are a program, not an installed package: its folder joins the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
