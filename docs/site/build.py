"""Builds the documentation site: `python docs/site/build.py OUTPUT`.

    README, docs, examples, results --> OUTPUT/pages --> Zensical, strict --> OUTPUT/site

The pages keep their places in the repository, so the same links work there, in an editor and on
the site. A link or an anchor without a target fails the build, and so does a page of docs/ that
the navigation lacks. The site loads nothing from other hosts.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]

SHOWN = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "VERSIONING.md",
    "CODE_OF_CONDUCT.md",
    "LICENSE",
    "docs",
    "examples",
    "benchmarks/results",
    "charts/moorage/values.yaml",
    "charts/moorage-runtimes/values.yaml",
)
"""The pages, and what they link to."""

HIDDEN = shutil.ignore_patterns("site", "__pycache__")
DIAGRAMS = "node_modules/mermaid/dist/mermaid.min.js"
LISTED_FOLDER = "- Decisions: "
FENCE = "custom_fences:"


def stage(pages: Path) -> None:
    """Copy what the site shows, to the same paths."""
    shutil.rmtree(pages, ignore_errors=True)
    for name in SHOWN:
        source, target = ROOT / name, pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=HIDDEN)
        else:
            shutil.copy(source, target)


def can_draw(output: Path, pages: Path) -> bool:
    """Add the program that draws diagrams, which the theme would load from another host.

    Returns:
        False if npm is missing. The pages then show the source of the diagrams.

    Raises:
        SystemExit: npm reports an error.
    """
    if shutil.which("npm") is None:
        print("npm is not installed: the pages show the source of diagrams", file=sys.stderr)
        return False
    folder = output / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SITE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    done = (folder / DIAGRAMS).exists() or not subprocess.run(
        command, cwd=folder, check=False
    ).returncode
    if not done:
        sys.exit(f"{' '.join(command)} failed in {folder}")
    (pages / "scripts").mkdir()
    shutil.copy(folder / DIAGRAMS, pages / "scripts" / "mermaid.min.js")
    return True


def configuration(pages: Path, *, draws: bool) -> str:
    """Return mkdocs.yml with the pages of the listed folder, and without diagrams if need be.

    Raises:
        SystemExit: The navigation lacks pages of docs/.
    """
    lines: list[str] = []
    for line in (SITE / "mkdocs.yml").read_text().splitlines():
        indent, found, folder = line.partition(LISTED_FOLDER)
        if found:
            names = sorted(path.relative_to(pages) for path in (pages / folder).glob("*.md"))
            lines += [f"{indent}- Decisions:", *(f"{indent}    - {name}" for name in names)]
        elif draws or not ("mermaid" in line or FENCE in line):
            lines.append(line)
    listed = {line.rpartition("- ")[2].rpartition(": ")[2] for line in lines}
    there = {str(path.relative_to(pages)) for path in (pages / "docs").rglob("*.md")}
    if missing := sorted(there - listed):
        sys.exit(f"docs/site/mkdocs.yml: nav lacks {', '.join(missing)}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Return the exit status of Zensical."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output.resolve()
    pages = output / "pages"
    stage(pages)
    # the program takes paths relative to its configuration
    (output / "mkdocs.yml").write_text(configuration(pages, draws=can_draw(output, pages)))
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict"]
    status = subprocess.run([*command, "--config-file", "mkdocs.yml"], cwd=output, check=False)
    if not status.returncode:
        print(f"open {output / 'site' / 'index.html'}")
    return status.returncode


if __name__ == "__main__":
    sys.exit(main())
