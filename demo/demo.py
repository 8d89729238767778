#!/usr/bin/env python3
"""`make demo` and `make demo-down`: start a cluster with a model that answers, and remove it.

    find a cluster -> build and load the images -> install the chart -> apply the example
    -> watch it become Ready -> query it over HTTP and gRPC -> show picture and answer

Needs only Python's standard library; it installs or builds everything else. Independent steps run
in parallel.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import digits
import images
from choice import Choice, DemoError, Facts, choose
from clusters import LocalCluster, Target
from docker_clusters import CurrentContext, Kind
from progress import Progress, Tasks, fail

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / "build" / "demo"
CHOICE_FILE = STATE / "cluster"
VALUES_FILE = STATE / "values.yaml"
EXAMPLE = ROOT / "examples" / "01-digits"
MODEL = "digits"
RELEASE_NAMESPACE = "moorage-system"
READY_TIMEOUT_SECONDS = 180
PROBE_TIMEOUT_SECONDS = 5
# Helm's message for a release whose last operation never ended.
LOCKED_RELEASE = "another operation (install/upgrade/rollback) is in progress"


def main() -> int:
    """Run one command; 0 on success."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "command",
        choices=["up", "install", "down"],
        help=(
            "up: do everything; install: stop after installing the chart; down: remove everything"
        ),
    )
    options = parser.parse_args()
    progress = Progress(STATE / "logs")
    try:
        if options.command == "down":
            down(progress)
        else:
            up(progress, ask=options.command == "up")
    except DemoError as error:
        progress.stop()
        fail(str(error))
        return 1
    except KeyboardInterrupt:
        progress.stop()
        fail("interrupted: run `make demo` to resume, or `make demo-down` to remove everything")
        return 130
    return 0


def up(progress: Progress, *, ask: bool) -> None:
    """Start the cluster, install the chart, and (with `ask`) query the example."""
    choice = choose(gather())
    progress.say(f"cluster: {choice.kind} ({choice.why})")
    target = make_target(choice, progress)
    version = chart_version()
    extras = os.environ.get("EXTRAS", "")
    images.check_extras(ROOT, extras)
    wanted = [
        images.find(ROOT, "operator", version),
        images.find(ROOT, "runtime", version, extras),
    ]
    CHOICE_FILE.write_text(choice.kind)

    tasks = Tasks()
    target.prepare(tasks, wanted)
    if ask:
        tasks.add("client", lambda: make_client(progress))
    tasks.join()
    for archive in images.stale_archives((path.name for path in STATE.iterdir()), wanted):
        (STATE / archive).unlink()

    env = target.environment()
    install_chart(progress, target, env, wanted)
    if ask:
        show(progress, target, env)
    progress.say(f"kubeconfig: {target.kubeconfig()}")
    progress.say(f"use it:     export KUBECONFIG={target.kubeconfig()}{target.path_hint()}")
    progress.say(f"values:     {VALUES_FILE.relative_to(ROOT)}, for helm upgrade -f")
    progress.say("remove it:  make demo-down")


def gather() -> Facts:
    """Inspect this machine without changing it."""
    context = quiet_output(["kubectl", "config", "current-context"])
    answers = (
        bool(context)
        and quiet_output(
            ["kubectl", "version", f"--request-timeout={PROBE_TIMEOUT_SECONDS}s", "-o", "json"]
        ).find("serverVersion")
        >= 0
    )
    return Facts(
        asked=os.environ.get("CLUSTER", ""),
        context=context,
        context_answers=answers,
        docker_runs=bool(quiet_output(["docker", "info", "--format", "{{.ServerVersion}}"])),
        kind_installed=shutil.which("kind") is not None,
    )


def quiet_output(command: list[str]) -> str:
    """Standard output of a command, "" when it is absent or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_SECONDS * 2
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def make_target(choice: Choice, progress: Progress) -> Target:
    """The chosen cluster as an installation target."""
    match choice.kind:
        case "local":
            return LocalCluster(ROOT, STATE, progress)
        case "kind":
            return Kind(ROOT, STATE, progress)
        case "current":
            return CurrentContext(ROOT, STATE, progress)


def chart_version() -> str:
    """The appVersion of the chart, which is also part of the image tags."""
    for line in (ROOT / "charts" / "moorage" / "Chart.yaml").read_text().splitlines():
        if line.startswith("appVersion:"):
            return line.split(":", 1)[1].strip().strip("\"'")
    raise DemoError("charts/moorage/Chart.yaml has no appVersion")


def make_client(progress: Progress) -> None:
    """Create a virtual environment with a gRPC client."""
    folder, requirements = STATE / "client", ROOT / "requirements" / "demo.txt"
    # Written last, so that an interrupted installation does not count as complete.
    installed = folder / "installed.txt"
    if installed.exists() and installed.read_text() == requirements.read_text():
        return
    with progress.step("Installing a gRPC client", "15 s"):
        progress.run("client", [sys.executable, "-m", "venv", "--clear", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes"]
        progress.run("client", [*pip, "-r", requirements], downloads="PyPI")
        installed.write_text(requirements.read_text())


def install_chart(
    progress: Progress, target: Target, env: dict[str, str], wanted: list[images.Image]
) -> None:
    """Install or upgrade the chart and wait for the operator.

    Raises:
        DemoError: helm gave up; the text has what the operator said.
    """
    command: list[str | Path] = ["helm", "upgrade", "--install", "moorage"]
    command += [ROOT / "charts" / "moorage", "--namespace", RELEASE_NAMESPACE]
    command += ["--create-namespace", "--wait", "--timeout", "3m"]
    pins = {image.name: ("tag", image.tag) for image in wanted}
    VALUES_FILE.write_text(images.values_text("make demo", target.registry(), pins))
    command += ["-f", VALUES_FILE]
    with progress.step("Installing the chart", "15 s"):
        try:
            run_helm(progress, command, env)
        except DemoError as error:
            logs = ["kubectl", "logs", "--namespace", RELEASE_NAMESPACE, "deployment/moorage"]
            said = quiet_output_env([*logs, "--tail=10"], env)
            raise DemoError(f"{error}\nThe operator's log ends with:\n{said}") from error


def run_helm(progress: Progress, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
    """Run helm; retry once if a killed helm left the release locked.

    Raises:
        DemoError: helm gave up.
    """
    try:
        progress.run("helm", command, env=env)
    except DemoError as error:
        if LOCKED_RELEASE not in str(error):
            raise
        # Delete only the record of the unfinished operation; the deployed objects stay.
        pending = "owner=helm,name=moorage,status in (pending-install,pending-upgrade)"
        unlock = ["kubectl", "delete", "secret", "--namespace", RELEASE_NAMESPACE]
        progress.run("helm", [*unlock, "--selector", pending], env=env)
        progress.run("helm", command, env=env)


def show(progress: Progress, target: Target, env: dict[str, str]) -> None:
    """Apply the example, watch it become Ready, query it, and show the answers."""
    manifest = EXAMPLE / "inferencemodel.yaml"
    progress.say(f"$ kubectl apply -f {manifest.relative_to(ROOT)}")
    print(progress.run("kubectl", ["kubectl", "apply", "-f", manifest], env=env).split("\n", 1)[1])
    progress.say("$ kubectl get inferencemodels -w")
    watch = subprocess.Popen(["kubectl", "get", "inferencemodels", MODEL, "-w"], env=env)
    try:
        progress.run(
            "kubectl",
            [
                "kubectl",
                "wait",
                # not UpToDate: after an upgrade of the operator, a model that serves is pending
                "--for=condition=Ready",
                f"inferencemodel/{MODEL}",
                f"--timeout={READY_TIMEOUT_SECONDS}s",
            ],
            env=env,
        )
    except DemoError as error:
        described = quiet_output_env(["kubectl", "describe", "inferencemodel", MODEL], env)
        raise DemoError(f"{error}\n{described}") from error
    finally:
        watch.terminate()
        watch.wait()
    with target.reach(MODEL, env) as (http, grpc):
        for sample in sorted((EXAMPLE / "samples").glob("digit-*.json")):
            ask_one(progress, sample, http, grpc)
    print()
    # The watch above ends when the model becomes Ready, perhaps before it prints that row.
    progress.say(f"$ kubectl get inferencemodels {MODEL}")
    table = progress.run("kubectl", ["kubectl", "get", "inferencemodels", MODEL], env=env)
    print(table.split("\n", 1)[1])


def quiet_output_env(command: list[str], env: dict[str, str]) -> str:
    """Output of a command in an environment, regardless of its exit status."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return done.stdout or done.stderr


def ask_one(progress: Progress, path: Path, http: str, grpc: str) -> None:
    """Send one picture over both transports and print it with the answers.

    Raises:
        DemoError: An answer is not the expected label.
    """
    sample = digits.read_sample(path)
    url = f"http://{http}/v2/models/{MODEL}/infer"
    relative = path.relative_to(ROOT)
    print()
    progress.say(f"$ curl -s {url} -d @{relative}")
    # The cluster is on this machine, so the proxy of the environment cannot reach it.
    curl = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "10"]
    curl += ["--noproxy", "*", url, "-d", f"@{path}"]
    body = progress.run("curl", curl).split("\n", 1)[1]
    by_grpc = progress.run(
        "client",
        [
            STATE / "client" / "bin" / "python",
            ROOT / "demo" / "grpc_ask.py",
            grpc,
            MODEL,
            path,
        ],
    ).splitlines()[-1]
    try:
        by_http = digits.answered_label(body)
    except ValueError as error:
        raise DemoError(f"unexpected answer from {url}: {error}") from error
    print(body)
    print(digits.draw(sample.pixels))
    print(f"expected {sample.expected}   HTTP answered {by_http}   gRPC answered {by_grpc}")
    if not str(sample.expected) == str(by_http) == by_grpc:
        raise DemoError(f"the answers for {relative} differ from the expected {sample.expected}")


def down(progress: Progress) -> None:
    """Remove what `up` created, on whichever cluster it used."""
    kind = CHOICE_FILE.read_text().strip() if CHOICE_FILE.exists() else "local"
    match kind:
        case "kind":
            target: Target = Kind(ROOT, STATE, progress)
        case "current":
            target = CurrentContext(ROOT, STATE, progress)
        case _:
            target = LocalCluster(ROOT, STATE, progress)
    target.remove()
    shutil.rmtree(STATE, ignore_errors=True)
    print(json.dumps({"removed": kind}))


if __name__ == "__main__":
    sys.exit(main())
