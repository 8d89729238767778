"""The program as a process whose standard streams are closed, full, broken or not UTF-8."""

import fcntl
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from support.canned_server import answering, kubeconfig_of
from support.waiting import eventually

OTHER = "kind: ConfigMap\n"


def moorage(
    shell: str, folder: Path, given: bytes | None = b"", **variables: str
) -> tuple[int, str, str]:
    """The exit status and both outputs of a line for bash, in which M is the program."""
    program = f"{shlex.quote(sys.executable)} -m moorage_cli"
    done = subprocess.run(
        ["bash", "-c", shell.replace("M ", f"{program} ", 1)],
        cwd=folder,
        input=given,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# A command line, and the exit status and the error.
LINES = {
    "M lint - <&-": (1, "moorage: FILE: standard input cannot be read: bad file descriptor\n"),
    "M lint a.yaml >&-": (1, "moorage: standard output cannot be written: bad file descriptor\n"),
    "M lint a.yaml >/dev/full": (
        1,
        "moorage: standard output cannot be written: no space left on device\n",
    ),
    "M --help >/dev/full": (
        1,
        "moorage: standard output cannot be written: no space left on device\n",
    ),
    "M lint missing 2>&-": (1, ""),
    "M lint missing 2>/dev/full": (1, ""),
    "M nonsense 2>&-": (2, ""),
    "M lint a.yaml <&- >&- 2>&-": (1, ""),
    "M lint - -": (2, "moorage: FILE: '-', which is standard input, can be given only once\n"),
    "M run fifo": (1, "moorage: PATH: fifo is neither a file nor a folder\n"),
    "mkdir gone; cd gone; rmdir ../gone; M run .": (
        1,
        "moorage: PATH: . does not exist: must be a model file or a folder\n",
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_stream_that_does_not_work_is_a_failure_with_one_sentence(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(OTHER)
    os.mkfifo(tmp_path / "fifo")

    code, out, err = moorage(line, tmp_path)

    assert (code, err) == LINES[line]
    assert out == ""


def test_a_reader_that_has_gone_ends_the_command_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OTHER)
    names = " ".join(["a.yaml"] * 5000)

    code, out, err = moorage(f"M lint {names} | head -1; exit ${{PIPESTATUS[0]}}", tmp_path)

    assert (code, err) == (1, "")
    assert out.startswith("a.yaml: file: kind: ")


def test_text_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "🚀.yaml").write_text(OTHER)
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    assert moorage("M lint -", tmp_path, "kind: ü".encode(), **ascii_only)[0] == 1
    assert moorage("M lint -", tmp_path, b"\xff", **ascii_only) == (
        1,
        "",
        "moorage: FILE: standard input cannot be read: the text is not UTF-8\n",
    )
    code, out, err = moorage(
        "M lint 🚀.yaml", tmp_path, PYTHONIOENCODING="latin-1", PYTHONUTF8="0"
    )
    assert (code, err) == (1, "")
    assert out.startswith("🚀.yaml: ")


# Interrupts itself while the program imports the module that takes the longest.
INTERRUPTED_START = """
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
import moorage_cli.__main__
sys.exit(moorage_cli.__main__.main(["status"]))
"""


@pytest.mark.parametrize(
    ("module", "status"),
    [
        ("moorage_cli.command_line.arguments", -signal.SIGINT),
        ("moorage_cli.commands.reports", -signal.SIGINT),
        ("kubernetes", 130),
    ],
)
def test_an_interrupt_during_an_import_ends_the_program_without_a_word(
    module: str, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_START, module],
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_an_interrupt_after_the_start_has_status_130(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with answering(b"", then_drips=True) as server:
        path.write_text(kubeconfig_of(server.port))
        running = subprocess.Popen(
            [sys.executable, "-m", "moorage_cli", "status", "--kubeconfig", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        eventually("a request", lambda: server.asked, bool, 60)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)

    assert (running.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
    ],
)
def test_colours_are_for_terminals_that_have_them(
    variables: dict[str, str], is_coloured: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 20, 0, 0))
    done = subprocess.run(
        [sys.executable, "-m", "moorage_cli", "lint", "a.yaml"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )
    os.close(end)
    out = os.read(terminal, 65536)
    os.close(terminal)

    assert (done.returncode, done.stderr) == (1, b"")
    assert (b"\x1b[" in out) is is_coloured
    assert b"is not valid YAML" in out
