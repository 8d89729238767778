#!/usr/bin/env python3
"""`make audit`: looks for known vulnerabilities in every locked requirements file.

pip-audit asks PyPI's advisory service. A mirror without that service looks like a service that
knows no vulnerability, so a release with a well-known one is audited first: if pip-audit does not
find it, nothing was audited and the command fails.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "audit"
PIP_AUDIT = FOLDER / "bin" / "pip-audit"
# Several advisories, PYSEC-2019-217 among them.
KNOWN_VULNERABLE = "jinja2==2.4.1"
ADVISORY = re.compile(r"\b(PYSEC|GHSA|CVE)-")
# Programs that only benchmarks and tests compare with; pinned to the version that is compared.
PEERS = ("benchmarks/peers/", "tests/e2e/peers/")


def main() -> int:
    """Audit; 0 when no vulnerability is known."""
    known = FOLDER / "known.txt"
    known.write_text(f"{KNOWN_VULNERABLE}\n")
    trial = audit(known, "--no-deps")
    if trial.returncode == 0 or not ADVISORY.search(trial.stdout):
        sys.stderr.write(
            f"make audit: nothing was audited: pip-audit does not find the known vulnerability of "
            f"{KNOWN_VULNERABLE}, so PyPI's advisory service cannot be reached from here. A "
            f"mirror often lacks it: run this where https://pypi.org is reachable. pip-audit "
            f"said:\n"
            f"{trial.stdout}{trial.stderr[-500:]}\n"
        )
        return 2
    bad: list[str] = []
    for name in locked():
        print(f"{name} ...", flush=True)
        done = audit(ROOT / name, "--require-hashes", "--strict")
        if done.returncode:
            print(done.stdout + done.stderr, flush=True)
            bad += [] if name.startswith(PEERS) else [name]
    if bad:
        sys.stderr.write(f"make audit: known vulnerabilities in {', '.join(bad)}; see above\n")
    return 1 if bad else 0


def locked() -> list[str]:
    """The requirements files of the repository, those of peers last."""
    listed = ["git", "ls-files", "*requirements*.txt", "requirements/*.txt"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split()), key=lambda name: (name.startswith(PEERS), name))


def audit(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pip-audit of one file, by its pins alone."""
    command: Sequence[str | Path] = [PIP_AUDIT, "--disable-pip", *words, "-r", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
