#!/usr/bin/env python3
"""`make generate`: brings every generated file up to date and prints the paths that changed."""

import sys
from pathlib import Path

from moorage_generate import files

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    for changed in files.write(ROOT):
        sys.stdout.write(f"{changed}\n")
