"""Throws bytes at one target, guided by the code that they reach; a finding stops it.

    python tests/fuzz/run.py NAME [libFuzzer options]

`make fuzz` runs every target. Seeds come from the wire vectors and tests/fuzz/corpus; inputs that
reach new code are kept in build/fuzz/NAME, a finding as build/fuzz/NAME-crash-*.
"""

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT / "tests")

with atheris.instrument_imports(include=["moorage_runtime"]):
    from fuzz.targets import TARGETS, seeds


def main() -> None:
    """Fuzz the target that the command line names."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"expected a target: {', '.join(TARGETS)}")
    name = sys.argv.pop(1)
    corpus = ROOT / "build" / "fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    folders = [str(corpus)]
    kept = ROOT / "tests" / "fuzz" / "corpus" / name
    if kept.is_dir():
        folders.append(str(kept))
    options = [f"-artifact_prefix={corpus}-", "-max_len=4096", *folders]
    atheris.Setup([*sys.argv, *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
