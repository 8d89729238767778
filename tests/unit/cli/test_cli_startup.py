"""A command imports only what it needs, because Tab starts the program too."""

import subprocess
import sys

import pytest

LARGE = {
    "asyncio", "celpy", "google.protobuf", "grpc", "httpx", "jsonschema", "kubernetes", "numpy",
    "onnx", "rich.console", "urllib3", "yaml",
}  # fmt: skip
PROGRAM = """
import sys
from moorage_cli.__main__ import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(" ".join(sys.modules))
"""
# What each command line needs of these packages.
LINES = {
    "--version": set(),
    "--help": set(),
    "": set(),
    "deploy --help": set(),
    "completion bash": set(),
    "lint missing.yaml": {"jsonschema", "yaml", "rich.console", "google.protobuf"},
}


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_imports_no_large_package_that_it_does_not_need(line):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    imported = set(done.stderr.split())
    assert "moorage_cli.__main__" in imported
    assert imported & LARGE <= LINES[line]


def test_the_names_of_models_are_completed_without_what_sends_requests_to_models():
    code = "import sys, moorage_cli.commands.reports; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert not set(done.stdout.split()) & LARGE


def test_a_protobuf_that_is_too_old_is_named():
    program = (
        "import sys, google.protobuf.runtime_version as installed; installed.MAJOR = 5; "
        "from moorage_cli.__main__ import main; sys.exit(main(['infer', 'iris', '-f', 'a.json']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("moorage: protobuf ")
    assert "is too old for moorage" in ended.stderr
