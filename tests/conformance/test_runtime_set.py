"""The runtimes of the chart with their real servers: `make runtimes`.

The operator resolves and plans a model that names the runtime, and the process of its container
runs here: the same command, arguments and variables, with the model's folder in place of the
mount. The kubelet's probes are answered as the pod needs them, the operator finds the model ready,
and the server answers a request.
"""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide import plan as planning
from moorage_operator.decide.runtimes.resolution import resolve
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.schedule.interrogation import interrogate
from moorage_operator.values.observed import Observed
from moorage_operator.values.runtimes import Runtimes
from support import model_servers
from support.environments import ROOT
from support.listening import free_port
from support.operator_runtimes import runtime
from support.operator_values import CONFIG, NOW, body, observed, pod
from support.runtime_set import ALL, command_of, runtimes, variables_of
from support.waiting import eventually

# The first run builds the servers.
pytestmark = [pytest.mark.conformance, pytest.mark.timeout(3600)]

PEERS = ROOT / "tests" / "e2e" / "peers"
SERVERS = Path(__file__).parent / "servers"
START_SECONDS = 120
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
ROWS = {"name": "x", "datatype": "FP32"}


def doubler_of_triton(folder: Path) -> None:
    shutil.copytree(PEERS / "triton" / "models" / "doubler", folder, dirs_exist_ok=True)


def doubler_of_mlserver(folder: Path) -> None:
    settings = {"name": "doubler", "implementation": "models.Doubler"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    shutil.copy(PEERS / "mlserver" / "models.py", folder)


def table_of(library: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        script = SERVERS / "tables_model.py"
        subprocess.run([model_servers.python(), script, library, folder], check=True)

    return write


def language_model(folder: Path) -> None:
    (folder / "mmproj-tiny.gguf").touch()
    script = SERVERS / "tiny_gguf.py"
    subprocess.run([model_servers.python(), script, folder / "tiny.gguf"], check=True)


def data_of(answer: Any) -> list[float]:
    """The first output, rounded: the boosted trees answer with probabilities."""
    return [round(value) for value in answer["outputs"][0]["data"]]


def content_of(answer: Any) -> str:
    return answer["choices"][0]["message"]["content"]


@dataclass(frozen=True)
class Case:
    """A runtime with a model: how to write it, what to add, what to ask and what it answers.

    `args` are for what differs between this machine and the image.
    """

    runtime: str
    programs: Callable[[], Sequence[Path]]
    write: Callable[[Path], None]
    path: str
    request: dict[str, Any]
    read: Callable[[Any], Any]
    expected: Any
    name: str = "doubler"
    args: Callable[[], list[str]] = list
    env: Mapping[str, str] = field(default_factory=dict[str, str])


INFER = "/v2/models/doubler/infer"
DOUBLED = {"inputs": [{**ROWS, "shape": [1, 4], "data": [1, 2, 3, 4.5]}]}
JUDGED = {"inputs": [{**ROWS, "shape": [3, 2], "data": [[0, 1], [2, 1], [3, 0]]}]}
METRICS = {"MLSERVER_METRICS_PORT": str(free_port())}
CASES = [
    Case(
        "triton",
        model_servers.triton,
        doubler_of_triton,
        INFER,
        DOUBLED,
        data_of,
        [2, 4, 6, 9],
        args=lambda: [
            f"--backend-directory={model_servers.triton()[0].parent / 'backends'}",
            f"--metrics-port={free_port()}",
        ],
    ),
    Case(
        "mlserver",
        model_servers.mlserver,
        doubler_of_mlserver,
        INFER,
        DOUBLED,
        data_of,
        [2, 4, 6, 9],
        env=METRICS,
    ),
    *(
        Case(
            f"mlserver-{library}",
            model_servers.mlserver,
            table_of(library),
            "/v2/models/rows/infer",
            JUDGED,
            data_of,
            [0, 1, 1],
            name="rows",
            env=METRICS,
        )
        for library in ("sklearn", "xgboost", "lightgbm")
    ),
    Case(
        "llama-cpp",
        model_servers.llama_server,
        language_model,
        "/v1/chat/completions",
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "Say something."}],
            "max_tokens": 4,
            "temperature": 0,
        },
        content_of,
        "kkkk",
        name="tiny",
        args=lambda: ["--ctx-size", "256", "--no-warmup"],
    ),
]


@dataclass(frozen=True)
class Running:
    """A server that runs, with the case, the model and the planned container."""

    case: Case
    model: Any
    container: dict[str, Any]
    port: int


def planned(of: Any) -> dict[str, Any]:
    """The container of the model's Deployment."""
    assert of.problems == ()
    plan = planning.plan(of, Observed(), now=NOW, config=CONFIG)
    (deployment,) = [each for each in plan.objects if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def model_of(case: Case, http: int, grpc: int) -> Any:
    """A model that names the runtime, as the operator resolves it, on ports that are free here."""
    spec = runtimes(*ALL)[case.runtime]
    server = {
        "name": case.runtime,
        "args": [*spec.get("args", []), *case.args()],
        "env": [{"name": name, "value": value} for name, value in case.env.items()],
        "ports": {"http": http, "grpc": grpc},
    }
    own = body(case.name, model={"uri": "pvc://models"}, runtime=server)
    known = Runtimes({case.runtime: runtime(case.runtime, **spec)})
    found = resolve(parse(own), own["spec"], {}, known, may_follow=True)
    assert found.state.use
    return found.model


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.runtime)
def running(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The server of a case with its model, until every probe succeeds."""
    case: Case = request.param
    folder = tmp_path_factory.mktemp(case.runtime)
    files = folder / "mounted"
    files.mkdir()
    case.write(files)
    http, grpc = free_port(), free_port()
    of = model_of(case, http, grpc)
    container = planned(of)
    here = json.loads(json.dumps(container).replace(names.MODEL_MOUNT_PATH, str(files)))
    environment = {
        "PATH": os.pathsep.join([*map(str, case.programs()), os.environ["PATH"]]),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        **variables_of(here),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command_of(here), env=environment, cwd=folder, stdout=log, stderr=log
        )
    try:
        eventually(
            f"{case.runtime} is ready; its log is {folder / 'log'}",
            lambda: process.poll() is not None or all(ok(container, each) for each in PROBES),
            bool,
            START_SECONDS,
        )
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        yield Running(case, of, container, http)
    finally:
        process.kill()
        process.wait(30)


def ok(container: Mapping[str, Any], probe: str) -> bool:
    """Whether the server passes a probe, as the kubelet judges."""
    asked = container[probe]["httpGet"]
    with contextlib.suppress(OSError):
        answer = get(asked["port"], asked["path"])
        return 200 <= answer < 400
    return False


def get(port: int, path: str) -> int:
    """The status of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    yield made
    await made.close()


def test_the_probes_ask_the_health_paths_of_the_protocol(running):
    paths = {each: running.container[each]["httpGet"]["path"] for each in PROBES}

    if running.model.protocol == "OpenAI":
        assert set(paths.values()) == {"/health"}
    else:
        assert paths["readinessProbe"] == f"/v2/models/{running.case.name}/ready"
        assert paths["livenessProbe"] == "/v2/health/live"
        assert get(running.port, "/v2/health/ready") == 200


async def test_the_operator_finds_the_model_ready(running, drivers):
    seen = observed(pod("p", running.model, ip="127.0.0.1"))
    (target,) = planning.plan(running.model, seen, now=NOW, config=CONFIG).targets

    results = [each async for each in interrogate(drivers, target, None, describe=True)]

    assert results[-1].live.verdict is True
    assert results[-1].model_ready.verdict is True, results[-1].model_ready
    assert results[-1].model
    assert results[-1].model.name == running.case.name


def test_the_server_answers_a_request(running):
    request = urllib.request.Request(
        f"http://127.0.0.1:{running.port}{running.case.path}",
        data=json.dumps(running.case.request).encode(),
        headers={"Content-Type": "application/json"},
    )

    with urllib.request.urlopen(request, timeout=60) as answer:
        assert running.case.read(json.load(answer)) == running.case.expected
