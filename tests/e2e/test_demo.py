"""`make demo` and the README's commands, as a user runs them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.documented import commands
from support.kubectl import Kubectl
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_shows_the_model_ready_and_both_transports_right(demo):
    answers = re.findall(r"expected (\d)   HTTP answered (\d)   gRPC answered (\d)", demo.output)

    assert len(answers) >= 3
    assert all(expected == http == grpc for expected, http, grpc in answers)
    assert re.search(r"digits +True +1/1 +digits +1 +OpenInference +Serving", demo.output)


def test_the_demo_does_not_change_the_users_kubeconfig(demo):
    printed = re.search(r"kubeconfig: (\S+)", demo.output).group(1)

    assert Path(printed).is_file()
    assert Path(printed) != Path.home() / ".kube" / "config"


def test_the_readme_commands_work_as_printed(demo):
    forward = None
    try:
        for command in commands(ROOT / "README.md", "Use it"):
            if command.endswith("&"):
                forward = subprocess.Popen(
                    command.rstrip("& ").split(),
                    cwd=ROOT,
                    env=demo.env,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                assert "Forwarding from" in forward.stdout.readline()
                continue
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=ROOT,
                env=demo.env,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            if command.startswith("curl"):
                outputs = {item["name"]: item for item in json.loads(done.stdout)["outputs"]}
                assert outputs["label"]["data"] == [3]
    finally:
        if forward:
            forward.terminate()
            forward.communicate()


def test_deleting_a_model_removes_its_children(demo):
    default = Kubectl(demo.env, "default")
    default.run("apply", "-f", str(ROOT / "examples" / "01-digits" / "inferencemodel.yaml"))
    default.wait_condition("digits", "Ready", "True")

    default.run("delete", "inferencemodel", "digits")

    for kind in ("deployments", "services", "pods"):
        eventually(
            f"{kind} of digits are gone",
            lambda kind=kind: default.items(kind, "moorage.dev/model=digits"),
            lambda items: items == [],
            60,
        )
