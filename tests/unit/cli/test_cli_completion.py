"""Completion in the shells themselves: bash and zsh on a pseudo-terminal, fish by its own query.

In the shells, `moorage` is a function that answers `status -o name` and prints other arguments.
The script for PowerShell is only compared with the commands, because PowerShell is not run here.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from moorage_cli.command_line.arguments import COMMANDS
from moorage_cli.command_line.completion import SHELLS, script

SECONDS = 30
# Prints the arguments of a completed command line, and the names that the cluster would have.
TOOL = """\
moorage() {
    case "$*" in
        "status -o name") printf 'iris\\nresnet\\n' ;;
        "status -o name -n other --context far") printf 'mnist\\n' ;;
        "runtimes -o name") printf 'triton\\n' ;;
        *) printf 'GO''T:<%s>\\n' "$*" ;;
    esac
}
"""
START = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
}
# A line up to the tab, and what the completed line prints.
COMPLETED = [
    ("moorage compl", "GOT:<completion ?>"),
    ("moorage completion fi", "GOT:<completion fish ?>"),
    ("moorage convert --in-p", "GOT:<convert --in-place ?>"),
    ("moorage why ir", "GOT:<why iris ?>"),
    ("moorage bench ir", "GOT:<bench iris ?>"),
    ("moorage runtimes tr", "GOT:<runtimes triton ?>"),
    ("moorage status -o na", r"\niris\r?\n"),
    ("moorage infer iris --protocol Tensor", "GOT:<infer iris --protocol TensorFlowServing ?>"),
    ("moorage lint our-mod", "GOT:<lint our-model.yaml ?>"),
    ("moorage infer iris --file our-mod", "GOT:<infer iris --file our-model.yaml ?>"),
    ("moorage infer iris -f our-mod", "GOT:<infer iris -f our-model.yaml ?>"),
    ("moorage run fold", "run folder/"),
    ("moorage run two", "GOT:<run two words.onnx ?>"),
    ("moorage why -n other --context far mn", "GOT:<why -n other --context far mnist ?>"),
]
# A line whose last word is not completed, because nothing fits there.
KEPT = [
    "moorage why our-mod",
    "moorage logs iris -f our-mod",
    "moorage status -n ir",
    "moorage deploy --name our-mod",
    "moorage rollout iris -o na",
]


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def folder(tmp_path):
    for name in ("our-model.yaml", "two words.onnx"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, shell, folder):
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
            os.execvpe(START[shell][0], START[shell], environment)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.end)
        os.waitpid(self.child, 0)

    def write(self, text):
        os.write(self.end, text.encode())

    def read_until(self, pattern):
        """The match of a pattern in what the shell prints, within a deadline."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.end], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {pattern} in {self.seen!r}"
            self.seen += os.read(self.end, 65536).decode(errors="replace")
        self.seen = self.seen[found.end() :]
        return found


@pytest.fixture(params=[pytest.param(shell, marks=needs(shell)) for shell in START])
def terminal(request, folder):
    (folder / "script").write_text(TOOL + script(request.param))
    with Terminal(request.param, folder) as made:
        made.write("source ./script; printf 'SOU''RCED\\n'\n")
        made.read_until("SOURCED")
        yield made


@pytest.mark.parametrize(("line", "printed"), COMPLETED)
def test_a_tab_completes_the_word(terminal, line, printed):
    terminal.write(f"{line}\t\n")

    assert terminal.read_until(printed)


@pytest.mark.parametrize("line", KEPT)
def test_a_tab_keeps_a_word_that_nothing_completes(terminal, line):
    terminal.write(f"{line}\t\n")

    assert terminal.read_until(f"GOT:<{line.removeprefix('moorage ')} ?>")


def test_bash_completes_the_value_after_an_equals_sign(folder):
    (folder / "script").write_text(TOOL + script("bash"))
    with Terminal("bash", folder) as terminal:
        terminal.write("source ./script\nmoorage infer iris --protocol=Tens\t\n")

        assert terminal.read_until("GOT:<infer iris --protocol=TensorFlowServing ?>")


@needs("fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("moorage compl", ["completion\tprint a completion script for a shell"]),
        ("moorage completion fi", ["fish"]),
        ("moorage why ir", ["iris"]),
        ("moorage runtimes ", ["triton"]),
        ("moorage convert --in-p", ["--in-place\twrite the files instead of printing the result"]),
        (
            "moorage infer iris --protocol Tensor",
            ["TensorFlowServing\tprotocol; defaults to the one in the model's status"],
        ),
        ("moorage lint our-mod", ["our-model.yaml"]),
        ("moorage why our-mod", []),
    ],
)
def test_fish_offers_words_with_descriptions(folder, line, expected):
    tool = (
        "function moorage; switch \"$argv\"; case 'status -o name'; printf 'iris\\nresnet\\n'; "
        "case 'runtimes -o name'; echo triton; end; end\n"
    )
    (folder / "script").write_text(tool + script("fish"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    answer = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./script; complete -C '{line}'"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip

    assert answer.stdout.splitlines() == expected
    assert answer.stderr == ""


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=needs("zsh"))])
def test_the_shell_accepts_the_script(shell, folder):
    (folder / "script").write_text(script(shell))

    answer = subprocess.run([shell, "-n", "script"], cwd=folder, capture_output=True, check=False)

    assert (answer.returncode, answer.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_offered(shell):
    text = script(shell)

    for command in COMMANDS:
        assert command.name in text
        for argument in command.arguments:
            for name in argument.names if argument.is_option else ():
                short = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                assert (short if shell == "fish" else name) in text


def test_the_script_for_powershell_has_balanced_brackets_and_quotes():
    without_texts = re.sub(r"'(?:[^']|'')*'", "", script("powershell"))

    assert "'" not in without_texts
    for begin, end in ("{}", "()", "[]"):
        assert without_texts.count(begin) == without_texts.count(end)
    assert without_texts.startswith("Register-ArgumentCompleter -Native -CommandName moorage")
