"""What kubectl_complete-moorage prints for the words of a command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moorage_cli.ask import cluster as connected
from moorage_cli.command_line.arguments import COMMANDS
from moorage_cli.commands.kubectl_completion import main
from moorage_cli.printing.failures import Failure
from support.environments import ROOT

KUBECTL = shutil.which("kubectl") or ROOT / "build" / "localcluster" / "bin" / "kubectl"


class Names:
    """A cluster with two models and a runtime."""

    namespace = "own"

    def models(self, namespace):
        return [{"metadata": {"name": f"{namespace}-{each}"}} for each in ("iris", "resnet")]

    def runtimes(self):
        return [{"metadata": {"name": "triton"}}]


@pytest.fixture
def complete(monkeypatch, capsys):
    """Completes words; returns the lines, and the arguments of the connections."""
    asked = []

    def connect(*given):
        asked.append(given)
        return Names()

    monkeypatch.setattr(connected, "Cluster", connect)

    def complete(*words):
        assert main(words) == 0
        return capsys.readouterr().out.splitlines(), asked

    return complete


# Words, the last one incomplete, and what is offered, without descriptions.
COMPLETED = [
    (("conv",), ["convert", ":4"]),
    (("completion", "fi"), ["fish", ":4"]),
    (("completion", ""), ["bash", "zsh", "fish", "powershell", ":4"]),
    (("why", ""), ["own-iris", "own-resnet", ":4"]),
    (("why", "-n", "team", ""), ["team-iris", "team-resnet", ":4"]),
    (("why", "own-iris", "own-r"), ["own-resnet", ":4"]),
    (("runtimes", ""), ["triton", ":4"]),
    (("convert", "--in"), ["--in-place", ":4"]),
    (("status", "-o", ""), ["table", "json", "name", ":4"]),
    (("status", "-n", ""), [":4"]),
    (("infer", "own-iris", "-f", ""), [":0"]),
    (("lint", ""), [":0"]),
    (("nonsense", ""), [":4"]),
]


@pytest.mark.parametrize(("words", "lines"), COMPLETED)
def test_what_fits_is_offered(complete, words, lines):
    found, _ = complete(*words)

    assert [line.partition("\t")[0] for line in found] == lines


def test_all_commands_are_offered_with_their_summaries(complete):
    found, asked = complete("")

    assert found[:-1] == [f"{each.name}\t{each.summary}" for each in COMMANDS]
    assert asked == []


def test_names_come_from_the_cluster_of_the_command_line(complete):
    _, asked = complete("why", "--context", "far", "--kubeconfig", "file", "")

    assert asked == [("file", "far")]


def test_without_a_cluster_no_name_is_offered_and_no_message(monkeypatch, capsys):
    def refuse(*_):
        raise Failure("no cluster")

    monkeypatch.setattr(connected, "Cluster", refuse)

    assert main(("why", "")) == 0
    assert capsys.readouterr() == (":4\n", "")


@pytest.mark.skipif(not Path(KUBECTL).exists(), reason="kubectl is not installed")
def test_kubectl_completes_the_plugin(tmp_path):
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [str(KUBECTL), "__complete", "moorage", "conv"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )

    assert "convert\trewrite manifests" in done.stdout
    assert done.stdout.endswith(":4\n")
