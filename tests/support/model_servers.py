"""Real model servers as programs of this machine, for the runtimes of charts/moorage-runtimes.

    tests/e2e/peers/runtimes -- build/runtimes: MLServer with three libraries of tables
    benchmarks/peers/triton  -- build/triton: Triton with its Python backend
    requirements/openai.txt  -- build/llama-server, from the source of llama-cpp-python

Each is made with RUNTIME_SERVERS=1 (`make runtimes`): 2 GB of wheels and ten CPU-minutes. Without
it, a test of a server that was not made is skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.environments import ROOT, environment

RUNTIMES = ROOT / "tests" / "e2e" / "peers" / "runtimes" / "requirements.txt"
TRITON = ROOT / "benchmarks" / "peers" / "triton" / "requirements.txt"
LLAMA = ROOT / "build" / "llama-server"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# To build it fast, and without what a test of its health does not need.
SMALL_LLAMA_CPP = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_C_FLAGS_RELEASE=-O0",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O0",
    "-DBUILD_SHARED_LIBS=OFF",
    *(f"-DGGML_{part}=OFF" for part in ("NATIVE", "LLAMAFILE", "OPENMP")),
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("APP", "EXAMPLES", "TESTS", "UI")),
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)


def python() -> Path:
    """Python of the environment with MLServer and what writes the models."""
    _skip_unless((ROOT / "build" / "runtimes" / "requirements.txt").exists())
    return environment("runtimes", RUNTIMES)


def mlserver() -> tuple[Path, ...]:
    """The folder with the program `mlserver`."""
    return (python().parent,)


def triton() -> tuple[Path, ...]:
    """The folder `bin` of Triton, beside `backends`, and that of the Python of its models."""
    _skip_unless((ROOT / "build" / "triton" / "requirements.txt").exists())
    programs = environment("triton", TRITON).parent
    packages = programs.parent / "lib" / f"python{VERSION}" / "site-packages"
    server = packages / "pytriton" / "tritonserver"
    # the Python backend looks beside itself for the stub of this Python
    for stub in (server / "python_backend_stubs" / VERSION).iterdir():
        shutil.copy(stub, server / "backends" / "python")
    return server / "bin", programs


def llama_server() -> tuple[Path, ...]:
    """The folder with the program `llama-server`."""
    folder, stamp = LLAMA / "build" / "bin", LLAMA / "requirement.txt"
    wanted = _requirement("llama-cpp-python")
    is_made = stamp.exists() and stamp.read_text() == wanted
    _skip_unless(is_made)
    if not is_made:
        shutil.rmtree(LLAMA, ignore_errors=True)
        LLAMA.mkdir(parents=True)
        _build_llama_server(wanted)
        stamp.write_text(wanted)
    return (folder,)


def _build_llama_server(requirement: str) -> None:
    """Build it from the source that the package of its Python server has."""
    listed = LLAMA / "wanted.txt"
    listed.write_text(requirement)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    pip += ["--no-binary", "llama-cpp-python", "-r", listed, "-d", LLAMA]
    subprocess.run(pip, check=True)
    (archive,) = LLAMA.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(LLAMA, filter="data")
    archive.unlink()
    (source_folder,) = LLAMA.glob("*/vendor/llama.cpp")
    build = LLAMA / "build"
    subprocess.run(["cmake", "-S", source_folder, "-B", build, *SMALL_LLAMA_CPP], check=True)
    jobs = str(os.cpu_count() or 1)
    command = ["cmake", "--build", build, "--target", "llama-server", "-j", jobs]
    subprocess.run(command, check=True)


def _requirement(package: str) -> str:
    """The package's pin with its hashes."""
    text = (ROOT / "requirements" / "openai.txt").read_text()
    found = re.search(rf"^{package}==(?:.*\\\n)*.*\n", text, re.MULTILINE)
    assert found, f"requirements/openai.txt does not pin {package}"
    return found[0]


def _skip_unless(is_made: bool) -> None:
    if not is_made and not os.environ.get("RUNTIME_SERVERS"):
        pytest.skip("the server is not there: run make runtimes")
