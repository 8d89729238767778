"""The program of the local cluster on the real node: crashes, repeated runs and removal."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.inference import in_url
from support.kubectl import Kubectl
from support.machine import traces
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "localcluster" / "cluster"
STATE = Path("/var/lib/moorage-local")
API_PORT = 16443
PARTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
    "coredns",
)
# NET_ADDR_SET of the kernel. Any other address of a bridge is the lowest of its ports.
SET_BY_A_PROGRAM = 3
# Taken while tests are collected, before any of them starts a cluster.
BEFORE = traces()


def cluster(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, check=False, timeout=200
    )
    assert not check or done.returncode == 0, f"cluster {words}: {done.stdout}{done.stderr}"
    return done


def status() -> dict:
    return json.loads(cluster("status", "--json", check=False).stdout)


def pids() -> dict[str, int]:
    files = (STATE / "pids").glob("*.json")
    return {file.stem: json.loads(file.read_text())["pid"] for file in files}


def running(part: str) -> list[int]:
    """Processes of a part of the node, with or without a record."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if Path(line[0]).name == part and any(str(STATE) in word for word in line[1:]):
            found.append(int(entry.name))
    return found


def kill(*names: str) -> None:
    """Kill parts of the cluster."""
    found = pids()
    for name in names:
        os.kill(found[name], signal.SIGKILL)
    eventually(
        f"{names} ended",
        lambda: status()["processes"],
        lambda alive: not any(alive[name] for name in names),
        10,
    )


def left() -> set[str]:
    """The remains of the node on the machine."""
    # `down` restores a forwarding of 0, regardless of a cluster that was kept
    return {line for line in traces() - BEFORE if line != "forwarding 0" and not on_host(line)}


def on_host(line: str) -> bool:
    """Whether a trace is one of our processes outside of containers."""
    kind, number, *name = line.split()
    if kind != "process" or not name[0].startswith("moorage-"):
        return False
    try:
        return Path(f"/proc/{number}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    except OSError:
        # ended meanwhile
        return True


def answers(url: str) -> bool:
    return (
        subprocess.run(
            ["curl", "-sf", "-m", "2", url], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def readiness(kubectl: Kubectl) -> object:
    """What decides whether the Service of digits answers, to be shown if it does not."""
    pods = kubectl.items("pods", "moorage.dev/model=digits")
    slices = kubectl.items("endpointslices", "kubernetes.io/service-name=digits")
    return [each["status"] for each in pods], [each.get("endpoints") for each in slices]


@pytest.fixture
def namespaces() -> list[str]:
    """No checks: these tests cause restarts, and some of them end the whole cluster."""
    return []


@pytest.fixture
def node(demo) -> None:
    """The node with all its parts, even if an earlier test killed some."""
    cluster("up")


@pytest.fixture
def serving(node, default) -> Kubectl:
    """The node with the example Ready, as the demo leaves it."""
    default.run("apply", "-f", str(ROOT / "examples" / "01-digits" / "inferencemodel.yaml"))
    default.wait_condition("digits", "Ready", "True", "Serving")
    return default


def test_the_bridge_keeps_its_hardware_address_when_pods_come_and_go(node):
    assigned = Path("/sys/class/net/moorage0/addr_assign_type").read_text()

    assert int(assigned) == SET_BY_A_PROGRAM


def test_a_second_up_changes_no_process_and_touches_no_file(node):
    files = [path for path in (STATE / "config").rglob("*") if path.is_file()]
    before = (pids(), [path.stat().st_mtime_ns for path in files])

    cluster("up")

    assert (pids(), [path.stat().st_mtime_ns for path in files]) == before
    assert status()["healthy"]


@pytest.mark.parametrize("part", PARTS)
def test_up_restarts_a_killed_part_and_keeps_the_others(node, part):
    before = pids()
    kill(part)
    assert not status()["healthy"]

    cluster("up")

    assert status()["healthy"]
    after = pids()
    assert {name for name in PARTS if after[name] != before[name]} == {part}


def test_a_model_serves_through_the_loss_of_every_part_and_after_up(serving):
    uid = serving.items("pods", "moorage.dev/model=digits")[0]["metadata"]["uid"]

    address = serving.get("service", "digits")["spec"]["clusterIP"]
    url = f"http://{in_url(address)}:8000/v2/models/digits/ready"
    # a restarted kubelet reports a pod as not ready until it has probed it,
    # and the operator may not have heard of that yet
    eventually(
        "the Service answers",
        lambda: answers(url) or readiness(serving),
        lambda seen: seen is True,
        180,
    )

    kill(*PARTS)
    assert answers(url)
    cluster("up")

    serving.wait_condition("digits", "Ready", "True", "Serving", seconds=90)
    assert uid in {
        pod["metadata"]["uid"] for pod in serving.items("pods", "moorage.dev/model=digits")
    }
    eventually("the Service answers again", lambda: answers(url), bool, 10)


@pytest.mark.parametrize("part", ["etcd", "kube-apiserver", "kubelet"])
def test_an_interrupted_up_is_completed_by_the_next_one(node, part):
    kill(*PARTS)
    (STATE / "pids" / f"{part}.json").unlink()
    with subprocess.Popen([PROGRAM, "up"], stdout=subprocess.DEVNULL) as cut_off:
        while not (STATE / "pids" / f"{part}.json").exists():
            assert cut_off.poll() is None
            time.sleep(0.01)
        cut_off.kill()
    # as if it had been killed between the start and its record
    (STATE / "pids" / f"{part}.json").unlink()

    cluster("up")

    assert status()["healthy"]
    assert len(running(part)) == 1


def test_several_control_planes_can_run_next_to_the_node(demo, node, tmp_path):
    folders = [tmp_path / name for name in ("one", "two", "three")]
    starts = [
        subprocess.Popen([PROGRAM, "control-plane", "up", "--dir", folder], stdout=subprocess.PIPE)
        for folder in folders
    ]
    printed = [start.communicate(timeout=100)[0].decode().strip() for start in starts]
    try:
        assert printed == [str(folder / "kubeconfig") for folder in folders]
        configs = [json.loads(Path(path).read_text()) for path in printed]
        assert len({config["clusters"][0]["cluster"]["server"] for config in configs}) == 3
        for path in printed:
            plane = Kubectl({**demo.env, "KUBECONFIG": path}, "default")
            assert len(plane.items("namespaces")) >= 1
    finally:
        for folder in folders:
            cluster("control-plane", "down", "--dir", folder)
    assert not any(folder.exists() for folder in folders)
    assert status()["healthy"]


def test_an_invalid_archive_is_reported(node, tmp_path):
    (tmp_path / "image.tar").write_text("no archive")

    refused = cluster("load", tmp_path / "image.tar", check=False)
    absent = cluster("load", tmp_path / "none.tar", check=False)

    assert refused.returncode == absent.returncode == 1
    assert str(tmp_path / "image.tar") in refused.stderr
    assert str(tmp_path / "none.tar") in absent.stderr
    assert len(absent.stderr.splitlines()) == 1


def test_images_that_are_built_at_the_same_time_do_not_disturb_each_other(tmp_path):
    cluster("base-image")
    file = tmp_path / "Dockerfile"
    step = "RUN head -c 30000000 /dev/urandom > /random\n"
    file.write_text(f"FROM localhost/moorage-base:bookworm\nARG NAME\n{step * 3}")
    words = [PROGRAM, "build", "--file", file, "--context", tmp_path]
    archives = [tmp_path / f"{name}.tar" for name in "abc"]

    builds = [
        subprocess.Popen(
            [*words, f"--build-arg=NAME={each.stem}", "--tag", f"{each.stem}:1", "--output", each],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for each in archives
    ]
    outputs = [build.communicate(timeout=600)[0] for build in builds]

    assert [build.returncode for build in builds] == [0, 0, 0], outputs
    assert all(each.stat().st_size > 30_000_000 for each in archives)
    assert "incomplete layer" not in "".join(outputs)
    assert f"{STATE}/buildah/overlay/" not in Path("/proc/mounts").read_text()


@pytest.fixture
def node_down(serving) -> Iterator[None]:
    """Everything killed while pods run, then `down`; the demo's cluster is back afterwards."""
    kill(*PARTS)
    cluster("down")
    yield
    subprocess.run(
        ["make", "demo"],
        cwd=ROOT,
        env={**os.environ, "CLUSTER": "local"},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=600,
    )


def test_down_after_a_crash_removes_everything_and_a_port_in_use_is_reported(node_down):
    # only the image builder's storage, which a demo in the same place needs again
    assert left() <= {f"file {STATE}"}
    assert {path.name for path in STATE.iterdir()} == {"buildah", "ports.json"}
    assert status()["processes"] == dict.fromkeys(PARTS, False)
    cluster("down")

    with socket.create_server(("127.0.0.1", API_PORT)):
        refused = cluster("up", check=False)

    assert refused.returncode == 1
    assert f"port {API_PORT}, which kube-apiserver needs, is in use by " in refused.stderr
    assert left() <= {f"file {STATE}", "file /run/moorage-local"}
