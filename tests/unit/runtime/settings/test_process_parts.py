"""Cores, logs and metrics."""

import io
import json
import logging
import os
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from moorage_runtime.dataplane.metrics import InferenceMetrics, new_registry
from moorage_runtime.frontends.http.message import HttpRequest
from moorage_runtime.frontends.http.metrics import MetricsFrontend
from moorage_runtime.settings import cores, logs


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        ({"sys/fs/cgroup/cpu.max": "nonsense"}, None),
    ],
)
def test_cores_follow_the_quota(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    allowed = len(os.sched_getaffinity(0))

    assert cores.usable(tmp_path) == (allowed if expected is None else min(expected, allowed))


@pytest.fixture
def root_logger():
    loggers = [logging.getLogger(), logging.getLogger("moorage_runtime")]
    before = [(each.handlers[:], each.level, each.propagate) for each in loggers]
    yield loggers[0]
    for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
        each.handlers[:] = handlers
        each.setLevel(level)
        each.propagate = propagate


def test_logs_are_json_without_a_terminal(root_logger):
    out = io.StringIO()
    logs.configure("info", "auto", out)

    logging.getLogger("a").warning("said %s", "é\n")
    logging.getLogger("a").debug("not said")
    try:
        int("why")
    except ValueError:
        logging.getLogger("a").exception("failed")

    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["level"] == "warning"
    assert first["message"] == "said é\n"
    assert first["logger"] == "a"
    assert first["time"].endswith("+00:00")
    assert "ValueError: invalid literal" in second["trace"]


def test_a_model_that_configures_logging_leaves_the_own_loggers(root_logger):
    out = io.StringIO()
    logs.configure("info", "text", out)
    own = logging.getLogger("moorage_runtime.own")

    # what logging.config does, which would also affect the other tests
    root_logger.handlers.clear()
    root_logger.setLevel("ERROR")
    own.disabled = True
    logs.enable()
    own.info("said")

    assert out.getvalue().strip().endswith("INFO    said")


def test_logs_are_text_on_request(root_logger):
    out = io.StringIO()
    logs.configure("info", "text", out)

    logging.getLogger("a").error("plain")

    assert out.getvalue().strip().endswith("ERROR   plain")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_record_keeps_its_path(root_logger, log_format):
    out = io.StringIO()
    logs.configure("info", log_format, out)

    logging.getLogger("a").error("a handler raised", extra={"path": "/v2/x\ny"})

    (line,) = out.getvalue().splitlines()
    if log_format == "json":
        assert json.loads(line)["path"] == "/v2/x\ny"
    else:
        assert line.endswith(r'a handler raised path="/v2/x\ny"')


def test_unknown_names_never_become_labels():
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)

    metrics.record("attacker", "9", "ModelNotFound", 0.1)
    metrics.record("digits", "1", "ok", 0.1)

    text = generate_latest(registry).decode()
    assert "attacker" not in text
    assert 'moorage_inferences_total{model="",outcome="ModelNotFound",version=""} 1.0' in text
    assert 'moorage_inferences_total{model="digits",outcome="ok",version="1"} 1.0' in text
    assert 'moorage_inference_seconds_count{model="digits",version="1"} 1.0' in text


def test_readiness_and_loads_are_counted():
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)

    states = [("a", "1", True, 2), ("a", "2", False, None)]
    metrics.watch(lambda: states)
    generate_latest(registry)
    states[:] = [("a", "2", True, 3)]
    metrics.loaded("a", "1", "ok", 2.0)
    metrics.loaded("a", "2", "InvalidConfig", 0.0)
    metrics.loaded("a", "2", "ok", 3.0)

    text = generate_latest(registry).decode()
    assert 'moorage_model_ready{model="a",version="2"} 1.0' in text
    assert 'moorage_model_ready{model="a",version="1"}' not in text
    assert 'moorage_inferences_in_flight{model="a",version="2"} 3.0' in text
    assert 'moorage_model_load_seconds_sum{model="a",version="2"} 3.0' in text
    assert 'moorage_model_load_seconds_sum{model="a",version="1"}' not in text
    assert (
        'moorage_model_load_failures_total{model="a",reason="InvalidConfig",version="2"} 1.0'
        in text
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/metrics", 200), ("POST", "/metrics", 405), ("GET", "/metrics/x", 404)],
)
def test_the_metrics_page(method, path, status):
    frontend = MetricsFrontend(new_registry())

    answer = frontend.handle(HttpRequest(method, path, "", {}, b""))

    assert answer.status == status
    if status == 200:
        assert b"process_resident_memory_bytes" in answer.body
        assert answer.content_type.startswith(b"text/plain")
    else:
        assert json.loads(answer.body)["error"]


def test_telemetry_of_onnx_runtime_is_disabled():
    """If its identifier cannot be stored, it prints an error on import."""
    environment = {
        key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"
    }
    module = "moorage_runtime.backends.onnx.backend"
    code = f"import {module}, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "1\n"
    assert "telemetry" not in done.stderr.lower()
