"""The rules of the static analysis, operator by operator, against ONNX Runtime."""

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from moorage_runtime.backends.onnx.graph import file as onnx_file
from moorage_runtime.backends.onnx.graph.operators import BATCH, Call, Value, compute
from moorage_runtime.backends.onnx.graph.rows import analyze
from support.onnx_operators import APPLICATIONS, Application
from support.onnx_zoo import close

COUNTS = (1, 4, 5)


def graph_of(application: Application, folder, **options: bool) -> onnx_file.Graph:
    path = folder / "model.onnx"
    onnx.save(application.model(**options), path)
    return onnx_file.read(path)


def rows(application: Application, count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(count)
    return {"x": random.standard_normal((count, *application.shape)).astype(np.float32)}


def ran(application: Application, folder, feeds: Mapping[str, np.ndarray]):
    """Results of all nodes by name, as ONNX Runtime computes them without optimization."""
    path = folder / "all.onnx"
    onnx.save(application.model(shows_all=True), path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def known(graph: onnx_file.Graph) -> dict[str, Value]:
    """What the analysis knows about each result."""
    values = {n: Value(t.dims, None, t.elements) for n, t in graph.initializers.items()}
    values |= {name: Value((None, *shape[1:]), 0) for name, shape in graph.inputs.items() if shape}
    for node in graph.nodes:
        inputs = [values[name] if name else None for name in node.inputs]
        found = compute(Call(node, inputs, graph.opsets.get(node.domain, 0)))
        values |= {name: value for name, value in zip(node.outputs, found, strict=False) if name}
    return values


def check(name: str, value: Value, found: np.ndarray, count: int) -> None:
    """What is known must be true of a result for this number of rows."""
    if value.dims is not None:
        assert len(value.dims) == found.ndim, name
        for place, size in enumerate(value.dims):
            if place == value.at:
                assert found.shape[place] == count, name
            elif size is not None:
                assert isinstance(size, int), name
                assert found.shape[place] == size, name
    if value.elements is not None:
        expected = [count if each == BATCH else each for each in value.elements]
        assert len(expected) == found.size, name
        for each, number in zip(expected, found.ravel().tolist(), strict=True):
            assert each is None or each == number, name


def named(applications):
    return [pytest.param(each, id=each.name) for each in applications]


PROVEN = [each for each in APPLICATIONS if not each.refused]
REFUSED = [each for each in APPLICATIONS if each.refused]


def test_every_application_has_its_own_name():
    assert len({each.name for each in APPLICATIONS}) == len(APPLICATIONS)


@pytest.mark.parametrize("application", named(REFUSED))
def test_the_analysis_refuses_an_application_with_its_reason(application, tmp_path):
    found = analyze(graph_of(application, tmp_path))

    assert found.obstacle.split(": ", 1)[-1] == application.refused


@pytest.mark.parametrize("application", named(PROVEN))
def test_a_proven_application_gives_merged_rows_their_own_answers(application, tmp_path):
    assert analyze(graph_of(application, tmp_path)).obstacle == ""

    parts = [rows(application, count) for count in COUNTS]
    merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    answers = [ran(application, tmp_path, part)["y"] for part in parts]
    together = ran(application, tmp_path, merged)["y"]

    for found, expected in zip(np.split(together, np.cumsum(COUNTS)[:-1]), answers, strict=True):
        assert close(found, expected)


@pytest.mark.parametrize("application", named(PROVEN))
def test_what_the_analysis_knows_about_each_result_is_true(application, tmp_path):
    values = known(graph_of(application, tmp_path))

    for count in COUNTS:
        for name, found in ran(application, tmp_path, rows(application, count)).items():
            check(name, values[name], found, count)


@pytest.mark.parametrize("application", named(PROVEN))
def test_the_analysis_computes_the_size_of_each_result(application, tmp_path):
    """A size that is unknown costs speed: the run is never short enough for the event loop."""
    unknown = {
        name
        for name, value in known(graph_of(application, tmp_path)).items()
        if value.dims is None
        or any(size is None for place, size in enumerate(value.dims) if place != value.at)
    }

    assert unknown == set(application.unknown.split())
