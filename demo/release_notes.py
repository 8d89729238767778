#!/usr/bin/env python3
"""`make changelog VERSION=X.Y.Z`: the notes of a release, from its section of the changelog.

    changelog.d/*.md -> towncrier build -> CHANGELOG.md -> notes of the tag

The notes are refused while a fragment is left, because that change would be in no notes. Needs
only Python's standard library.
"""

import argparse

from choice import DemoError
from demo import ROOT
from progress import fail

CHANGELOG = ROOT / "CHANGELOG.md"
FRAGMENTS = ROOT / "changelog.d"


def main() -> int:
    """Print the notes; 0 on success."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--version", default="")
    options = parser.parse_args()
    left = sorted(each.name for each in FRAGMENTS.glob("*.md"))
    try:
        print(notes(CHANGELOG.read_text(encoding="utf-8"), options.version, left))
    except DemoError as error:
        fail(str(error), "changelog")
        return 1
    return 0


def notes(changelog: str, version: str, left: list[str]) -> str:
    """The section of a version, without its heading.

    Args:
        changelog: The text of the changelog.
        version: Such as 0.1.0.
        left: The names of fragments that no release has collected.

    Raises:
        DemoError: The version is missing or has no section, or fragments are left.
    """
    if not version:
        raise DemoError("VERSION is empty: set the version of the release, such as VERSION=0.1.0")
    collect = f"run `.venv/bin/towncrier build --version {version} --yes` and commit"
    for section in changelog.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        if heading.split(" ")[0] == version:
            break
    else:
        raise DemoError(f"CHANGELOG.md has no section for VERSION={version!r}: {collect}")
    if left:
        raise DemoError(
            f"no section has what changelog.d/{left[0]} says, one of the fragments left there "
            f"({len(left)}): move their sentences to the section of {version}"
        )
    return text.strip()


if __name__ == "__main__":
    raise SystemExit(main())
