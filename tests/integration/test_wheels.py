"""The wheels as `make wheels` builds them: their metadata, and their programs in a fresh venv."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    "operator": ["moorage-operator"],
    "runtime": ["moorage-runtime", "moorage-fetch"],
    "cli": ["moorage", "kubectl-moorage"],
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Project to wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([*command, *(f"./{name}" for name in PROJECTS)], cwd=ROOT, check=True)
    return {name: next(folder.glob(f"moorage_{name}-*.whl")) for name in PROJECTS}


@pytest.mark.parametrize("project", PROJECTS)
def test_the_metadata_of_a_wheel_is_valid(wheels, project):
    with zipfile.ZipFile(wheels[project]) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(archive.read(name), validate=True)
        members = archive.namelist()

    assert metadata.name == f"moorage-{project}"
    assert metadata.summary
    assert metadata.license_expression == "Apache-2.0"
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.requires_dist
    assert [each for each in members if "__pycache__" in each] == []


@pytest.mark.parametrize(("project", "programs"), PROJECTS.items(), ids=PROJECTS)
def test_its_programs_start_in_a_fresh_environment(wheels, tmp_path, project, programs):
    # the locked requirements, which this environment has, come from a path file
    venv.create(tmp_path, with_pip=False, symlinks=True)
    python = tmp_path / "bin" / "python"
    (packages,) = (tmp_path / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "--no-deps", wheels[project]], check=True)
    locked = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "locked.pth").write_text(f"{locked}\n")

    for program in programs:
        done = subprocess.run(
            [tmp_path / "bin" / program, "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
    where = f"import moorage_{project} as package; print(package.__file__)"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
