"""The program's commands: what they say, refuse and document."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moorage_localcluster import __main__ as program
from moorage_localcluster import binaries, layout, packages
from moorage_localcluster.layout import Ports

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "local-cluster.md").read_text()


def parsers(parser, words=()):
    """A parser and those of its commands, each with the words that lead to it."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, (*words, name))


COMMANDS = dict(parsers(program.make_parser()))
FLAGS = [
    (*words, flag)
    for words, parser in COMMANDS.items()
    for action in parser._actions
    for flag in action.option_strings
    if flag.startswith("--") and flag != "--help"
]


@pytest.mark.parametrize("words", FLAGS, ids=" ".join)
def test_every_flag_is_in_the_guide_beside_its_command(words):
    *command, flag = words
    rows = [line for line in GUIDE.splitlines() if not command or f"`{command[-1]}" in line]
    assert any(flag in line for line in rows), f"{' '.join(words)} is not in the guide"


@pytest.mark.parametrize("command", [words[0] for words in COMMANDS if words])
def test_every_command_is_in_the_guide(command):
    assert re.search(rf"^\| `{command}\b", GUIDE, re.MULTILINE)


def test_the_guide_names_no_flag_and_no_command_that_does_not_exist():
    table = GUIDE.split("## Commands")[1].split("\n## ")[0]
    named = {row.split("`")[1].split()[0] for row in table.splitlines() if row.startswith("| `")}

    assert named == {words[0] for words in COMMANDS if words}
    ours = re.sub(r"^(helm|kubectl) .*$|`moorage [^`]*`", "", GUIDE, flags=re.MULTILINE)
    assert set(re.findall(r"--[a-z][a-z-]+", ours)) <= {words[-1] for words in FLAGS} | {"--help"}


def test_the_guides_ports_addresses_and_places_are_the_programs():
    node = layout.node()
    for name in Ports.__dataclass_fields__:
        assert re.search(rf"\b{getattr(Ports(), name)}\b", GUIDE), name
    for value in (
        layout.BRIDGE,
        layout.BRIDGE_ADDRESS,
        layout.POD_RANGE,
        layout.SERVICE_RANGE,
        layout.DNS_SERVICE_ADDRESS,
        str(layout.DNS_PORT),
        str(node.state),
        str(node.run),
        str(node.kubeconfig),
        str(node.logs),
    ):
        assert value in GUIDE


def test_the_readme_leads_to_the_guide():
    assert "(docs/how-to/local-cluster.md)" in (ROOT / "README.md").read_text()


def test_the_environment_survives_a_shell_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / "a folder; with $signs"
    printed = subprocess.run(
        [sys.executable, ROOT / "localcluster" / "cluster", "--state-dir", folder, "env"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    said = subprocess.run(
        ["sh", "-c", f'{printed}\necho "$KUBECONFIG"'], capture_output=True, text=True, check=True
    ).stdout
    assert said == f"{folder / 'kubeconfig'}\n"


@pytest.mark.parametrize("command", ["up", "down", "load x.tar"])
def test_without_root_the_node_is_refused_with_a_sentence(monkeypatch, capsys, tmp_path, command):
    monkeypatch.setattr(program.os, "geteuid", lambda: 1000)

    assert program.main(["--state-dir", str(tmp_path), *command.split()]) == 1

    name = command.split()[0]
    assert capsys.readouterr().err.startswith(f"cluster: `cluster {name}` ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["up"], "run `cluster install` first"),
        (["control-plane", "up", "--dir"], "run `cluster install --control-plane` first"),
        (["control-plane", "up", "--controllers", "--dir"], "run `cluster install` first"),
    ],
)
def test_what_is_not_installed_is_named(monkeypatch, capsys, tmp_path, words, hint):
    monkeypatch.setattr(program.os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages, "missing", lambda **_: ["etcd-server"])
    monkeypatch.setattr(binaries, "missing", lambda **_: ["kube-apiserver"])
    folder = tmp_path / "new"
    line = ["--state-dir", str(folder), *words] + ([str(folder)] if words[-1] == "--dir" else [])

    assert program.main(line) == 1

    said = capsys.readouterr().err
    assert said == f"cluster: not installed: etcd-server, kube-apiserver; {hint}\n"
    assert not folder.exists()


@pytest.mark.parametrize(
    "words", [["--state-dir", "FOLDER", "down", "--purge"], ["control-plane", "down", "--dir"]]
)
def test_down_never_removes_a_folder_that_is_not_a_clusters(monkeypatch, capsys, tmp_path, words):
    monkeypatch.setattr(program.os, "geteuid", lambda: 0)
    (tmp_path / "thesis.tex").write_text("years of work")
    line = [str(tmp_path) if word == "FOLDER" else word for word in words]
    line += [str(tmp_path)] if words[-1] == "--dir" else []

    assert program.main(line) == 1

    assert "is not a cluster's folder" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_down_of_a_node_that_was_never_up_touches_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(program.os, "geteuid", lambda: 0)

    assert program.main(["--state-dir", str(tmp_path / "none"), "down", "--purge"]) == 0

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["status", "down"])
def test_asking_about_a_control_plane_that_is_not_there_makes_no_folder(tmp_path, action, capsys):
    folder = tmp_path / "none"

    code = program.main(["control-plane", action, "--dir", str(folder)])

    assert code == (1 if action == "status" else 0)
    assert not folder.exists()


def test_an_interrupted_command_says_so_without_a_stack_trace(monkeypatch, capsys, tmp_path):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", interrupt)

    assert program.main(["--state-dir", str(tmp_path), "status"]) == 130
    assert capsys.readouterr().err.startswith("cluster: interrupted")


def test_a_file_that_cannot_be_read_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "plane").write_text("a file where a folder should be")
    monkeypatch.setattr(packages, "missing", lambda **_: [])
    monkeypatch.setattr(binaries, "missing", lambda **_: [])

    assert program.main(["control-plane", "up", "--dir", str(tmp_path / "plane")]) == 1

    assert str(tmp_path / "plane") in capsys.readouterr().err


def test_programs_are_found_and_files_readable_whatever_the_users_settings(monkeypatch):
    """Debian's `su` keeps the user's PATH; a umask of 077 hid resolv.conf from the pods."""
    seen = []

    def record(_options):
        mask = os.umask(0)
        os.umask(mask)
        seen.append((mask, os.environ["PATH"].split(":")))
        return 0

    monkeypatch.setattr(program, "run", record)
    monkeypatch.setenv("PATH", "/home/me/bin:/usr/bin")
    before = os.umask(0o077)
    try:
        assert program.main(["status"]) == 0
    finally:
        os.umask(before)

    [(mask, folders)] = seen
    assert mask == 0o022
    assert folders[:2] == ["/home/me/bin", "/usr/bin"]
    assert {"/usr/sbin", "/sbin"} <= set(folders)
