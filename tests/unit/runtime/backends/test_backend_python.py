import contextlib
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.backends.python.packages import Packages
from moorage_runtime.backends.python.process import IsolatingPythonBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from unit.runtime.model_files import write_python

X = Tensor("x", Datatype.FP32, np.array([1, 2], np.float32))


def load(folder: Path, body: str, **rest) -> LoadedModel:
    write_python(folder / "model.py", body)
    return PythonBackend().load(ModelSource("m", "1", folder / "model.py", **rest))


def answer(folder: Path, value: str, body: str = "") -> Tensor:
    """The output of a model whose predict returns {"y": <value>}."""
    text = f'{body}\ndef predict(self, inputs, request):\n    return {{"y": {value}}}'
    (output,) = load(folder, text).infer(InferRequest("m", "1", (X,)))
    return output


def test_predict_gets_arrays_and_the_request(tmp_path):
    model = load(
        tmp_path,
        "def predict(self, inputs, request):\n"
        "    return {'y': inputs['x'] * request.parameters['by']}",
    )

    (output,) = model.infer(InferRequest("m", "1", (X,), parameters={"by": 3}))

    assert output.array.tolist() == [3.0, 6.0]
    assert model.platform == "python_callable"
    assert model.dynamic


def test_declared_tensors_are_the_metadata(tmp_path):
    model = load(
        tmp_path,
        'inputs = [("x", "FP32", [-1])]\noutputs = [("y", "INT64", (-1, 2))]\n'
        "def predict(self, inputs, request): ...",
    )

    assert model.inputs == (TensorSpec("x", Datatype.FP32, (-1,)),)
    assert model.outputs == (TensorSpec("y", Datatype.INT64, (-1, 2)),)
    assert not model.dynamic


@pytest.mark.parametrize("item", ['("x", "FP32", -1)', '("x", "float32", [-1])'])
def test_a_malformed_tensor_is_quoted_beside_what_is_allowed(tmp_path, item):
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, f"inputs = [{item}]\ndef predict(self, inputs, request): ...")

    for fact in ("Model.inputs[0] is ('x', ", "shape such as [-1, 4]", "datatype of BOOL, UINT8"):
        assert fact in caught.value.message


def test_load_gets_folder_and_parameters(tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    model = load(
        tmp_path,
        "def load(self, context):\n"
        "    self.word = (context.folder / 'words.txt').read_text()\n"
        "    self.word += context.parameters['end'] + context.name + context.version\n"
        "def predict(self, inputs, request):\n"
        "    return {'y': [self.word]}",
        options={"parameters": {"end": "!"}},
    )

    assert model.infer(InferRequest("m", "1", ()))[0].array.tolist() == [b"hello!m1"]


def test_neighbours_are_imported_relatively_and_models_do_not_collide(tmp_path):
    body = (
        "def predict(self, inputs, request):\n    from .near import NAME\n    return {'y': [NAME]}"
    )
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "near.py").write_text(f"NAME = '{name}'")
    models = [load(tmp_path / name, body) for name in ("one", "two")]

    names = [model.infer(InferRequest("m", "1", ()))[0].array.tolist() for model in models]

    assert names == [[b"one"], [b"two"]]


@pytest.mark.parametrize(
    ("value", "datatype", "expected"),
    [
        ("inputs['x']", "FP32", [1.0, 2.0]),
        ("[True, False]", "BOOL", [True, False]),
        ("[1, 2]", "INT64", [1, 2]),
        ("['a', b'b']", "BYTES", [b"a", b"b"]),
        ("[['a'], ['é']]", "BYTES", [[b"a"], ["é".encode()]]),
        (r"[b'a\x00', b'\x00', 'b\x00']", "BYTES", [b"a\0", b"\0", b"b\0"]),
        ("5", "INT64", 5),
        ("request.inputs[0]", "FP32", [1.0, 2.0]),
    ],
)
def test_outputs_get_the_datatype_of_what_is_returned(tmp_path, value, datatype, expected):
    output = answer(tmp_path, value)

    assert output.name == "y"
    assert output.datatype == datatype
    assert output.array.tolist() == expected


def test_outputs_are_cast_to_the_declared_datatype(tmp_path):
    output = answer(tmp_path, "[0.5, 1]", 'outputs = [("y", "FP16", [-1])]')

    assert output.datatype is Datatype.FP16
    assert output.array.dtype == np.float16


@pytest.mark.parametrize(
    ("value", "declared", "facts"),
    [
        ("[0.5]", "INT32", ["float64", "INT32"]),
        ("['a']", "FP32", ["<U1", "FP32"]),
        ("[1]", "BYTES", ["int64", "BYTES"]),
        ("[object()]", "BYTES", ["object", "str or bytes"]),
        ("[1j]", None, ["complex128"]),
    ],
)
def test_an_output_of_another_type_fails(tmp_path, value, declared, facts):
    body = f'outputs = [("y", "{declared}", [-1])]' if declared else ""

    with pytest.raises(ModelFailed) as caught:
        answer(tmp_path, value, body)

    for fact in ("output 'y'", *facts):
        assert fact in caught.value.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def predict(self, inputs, request):\n    1 / 0", "ZeroDivisionError: division by zero"),
        ("def predict(self, inputs, request):\n    return [1]", "the model returned list"),
    ],
)
def test_a_failing_model_fails_only_the_request(tmp_path, body, message):
    with pytest.raises(ModelFailed, match=message):
        load(tmp_path, body).infer(InferRequest("m", "1", (X,)))


def test_a_model_may_refuse_a_request(tmp_path):
    body = (
        "def predict(self, inputs, request):\n"
        "    from moorage_runtime.errors import InvalidRequest\n"
        "    raise InvalidRequest('no pictures of cats')"
    )

    with pytest.raises(InvalidRequest, match="no pictures of cats"):
        load(tmp_path, body).infer(InferRequest("m", "1", (X,)))


STREAM = "def stream(self, inputs, request):\n    yield {'y': [1]}\n    yield {'y': [2]}"


def test_a_stream_comes_in_parts_and_its_last_is_the_answer(tmp_path):
    model = load(tmp_path, STREAM)
    request = InferRequest("m", "1", ())

    assert model.streams
    assert [part[0].array.tolist() for part in model.stream(request)] == [[1], [2]]
    assert model.infer(request)[0].array.tolist() == [2]


IMPORT = "from moorage_runtime.backends.python import PythonModel as P\n"
DOES_NOT_LOAD = {
    "x = (": r"model\.py cannot be imported: SyntaxError: '\(' was never closed",
    "import nosuch": r"model\.py cannot be imported: ModuleNotFoundError: No module",
    "x = 1": "model.py has no class that extends PythonModel",
    f"{IMPORT}class A(P): pass\nclass B(P): pass": (
        r"several classes that extend PythonModel \(A, B\): name one"
    ),
    f"{IMPORT}class A(P):\n    def load(self, context): raise OSError('no weights')": (
        "model.py: A failed to load: OSError: no weights"
    ),
    f"{IMPORT}class A(P):\n    inputs = [('x', 'float', [1])]": (
        r"model\.py: A\.inputs\[0\] is \('x', 'float', \[1\]\)"
    ),
    f"{IMPORT}class A(P):\n    outputs = [('y', 'FP32', [1]), ('y', 'BOOL', [])]": (
        r"model\.py: A\.outputs\[1\]: 'y' is already the name of another tensor: must be unique"
    ),
    f"{IMPORT}class A(P): pass": r"model\.py: A defines neither predict nor stream",
    f"{IMPORT}class A(P): http_path = '/generate'": (
        r"model\.py: A has an http_path, but no http method"
    ),
    f"{IMPORT}class A(P):\n    def predict(self, inputs): ...": (
        r"A\.predict cannot be called: too many positional arguments: must take "
        r"\(self, inputs, request\)"
    ),
    f"{IMPORT}class A(P):\n    def stream(self, inputs, request, more): yield": (
        r"A\.stream cannot be called: missing a required argument: 'more': must take "
        r"\(self, inputs, request\)"
    ),
    f"{IMPORT}class A(P):\n    http_path = '/generate'\n    def http(self): ...": (
        r"A\.http cannot be called: too many positional arguments: must take \(self, call\)"
    ),
    f"{IMPORT}class A(P):\n    async def predict(self, inputs, request): ...": (
        r"A\.predict is asynchronous: must be defined without async"
    ),
    f"{IMPORT}class A(P):\n    async def stream(self, inputs, request): yield": (
        r"A\.stream is asynchronous: must be defined without async"
    ),
}

CALLABLE = {
    "other names": "def predict(self, x, _): return {'y': [1]}",
    "any arguments": "def predict(self, *given): return {'y': [1]}",
    "a default": "def predict(self, inputs, request, more=1): return {'y': [1]}",
    "a static method": "@staticmethod\ndef predict(inputs, request): return {'y': [1]}",
    "set by load": ("def load(self, context): self.predict = lambda inputs, request: {'y': [1]}"),
    "a decorator": (
        "def more(f):\n"
        "    import functools\n"
        "    return functools.wraps(f)(lambda self, *given: f(self, *given, 1))\n"
        "@more\n"
        "def predict(self, inputs, request, one): return {'y': [one]}"
    ),
}


@pytest.mark.parametrize("body", CALLABLE.values(), ids=CALLABLE)
def test_a_method_that_can_be_called_with_the_arguments_is_accepted(tmp_path, body):
    answered = load(tmp_path, body).infer(InferRequest("m", "1", (X,)))

    assert answered[0].array.tolist() == [1]


def test_a_method_whose_arguments_are_unknown_is_accepted(tmp_path):
    assert load(tmp_path, "predict = max").platform == "python_callable"


@pytest.mark.parametrize(("source", "message"), DOES_NOT_LOAD.items())
def test_a_model_that_does_not_load_reports_the_reason(tmp_path, source, message):
    (tmp_path / "model.py").write_text(source)

    with pytest.raises(InvalidConfig, match=message):
        PythonBackend().load(ModelSource("m", "1", tmp_path / "model.py"))


def test_the_class_can_be_named(tmp_path):
    header = "from moorage_runtime.backends.python import PythonModel as P\n"
    body = "class A(P):\n    def predict(self, inputs, request): ...\nclass B(A): pass\n"
    (tmp_path / "model.py").write_text(header + body)

    def named(name: str) -> ModelSource:
        return ModelSource("m", "1", tmp_path / "model.py", options={"python_class": name})

    assert PythonBackend().load(named("B")).platform == "python_callable"
    with pytest.raises(
        InvalidConfig, match=r"model\.yaml: python_class: model\.py has no class 'C' that"
    ):
        PythonBackend().load(named("C"))


def test_a_model_loads_while_other_threads_import(tmp_path):
    ended = threading.Event()
    names = [f"imported_elsewhere_{number}" for number in range(100)]

    def keep_importing():
        while not ended.is_set():
            for name in names:
                sys.modules[name] = ModuleType(name)
            for name in names:
                del sys.modules[name]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            importing = pool.submit(keep_importing)
            try:
                for _ in range(100):
                    load(tmp_path, "def predict(self, inputs, request):\n    return {}")
            finally:
                ended.set()
            importing.result()
    finally:
        sys.setswitchinterval(interval)


def test_a_load_that_fails_late_leaves_a_later_one_its_modules(tmp_path):
    (tmp_path / "near.py").write_text("NAME = 'near'")
    (tmp_path / "model.py").write_text(
        "import os, pathlib, time\n"
        f"os.mkdir({str(tmp_path / 'begun')!r})\n"
        f"while not os.path.exists({str(tmp_path / 'goes_on')!r}):\n"
        "    time.sleep(0.001)\n"
        "raise RuntimeError('late')\n"
    )
    source = ModelSource("m", "1", tmp_path / "model.py")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(PythonBackend().load, source)
        while not (tmp_path / "begun").exists():
            assert not first.done()
        model = load(
            tmp_path,
            "def predict(self, inputs, request):\n"
            "    from .near import NAME\n"
            "    return {'y': [NAME]}",
        )
        (tmp_path / "goes_on").mkdir()
        with pytest.raises(InvalidConfig, match="RuntimeError: late"):
            first.result()

    (output,) = model.infer(InferRequest("m", "1", (X,)))

    assert output.array.tolist() == [b"near"]


NEAR = "def predict(self, inputs, request):\n    from .near import NAME\n    return {'y': [NAME]}"


@pytest.mark.parametrize("body", [NEAR, "class"], ids=["loads", "does not load"])
def test_a_serving_model_keeps_its_modules_while_its_folder_is_loaded_again(tmp_path, body):
    (tmp_path / "near.py").write_text("NAME = 'before'")
    before = load(tmp_path, NEAR)
    assert before.infer(InferRequest("m", "1", (X,)))[0].array.tolist() == [b"before"]
    (tmp_path / "near.py").write_text("NAME = 'afterwards'")

    with contextlib.suppress(InvalidConfig):
        after = load(tmp_path, body)
        assert after.infer(InferRequest("m", "1", (X,)))[0].array.tolist() == [b"afterwards"]

    assert before.infer(InferRequest("m", "1", (X,)))[0].array.tolist() == [b"before"]


def own_modules():
    return {name for name in sys.modules if name.startswith("moorage_model")}


def test_a_closed_model_frees_what_its_modules_hold(tmp_path):
    freed = tmp_path / "freed"
    (tmp_path / "model.py").write_text(
        "import pathlib\n"
        "from moorage_runtime.backends.python import PythonModel\n"
        "class Weights:\n"
        f"    def __del__(self, freed=pathlib.Path({str(freed)!r})):\n"
        "        freed.touch()\n"
        "WEIGHTS = Weights()\n"
        "class Model(PythonModel):\n"
        "    def predict(self, inputs, request):\n"
        "        return {'y': [str(WEIGHTS)]}\n"
    )
    known = own_modules()

    model = PythonBackend().load(ModelSource("m", "1", tmp_path / "model.py"))
    assert not freed.exists()
    model.close()

    assert freed.exists()
    assert own_modules() == known


@pytest.fixture
def without_logs():
    """Without the records of logs, which pytest keeps with their traces."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("without_logs")
def test_a_model_that_does_not_load_frees_what_it_holds(tmp_path):
    freed = tmp_path / "freed"
    body = f"""\
class Weights:
    def __del__(self):
        __import__("pathlib").Path({str(freed)!r}).touch()

def load(self, context):
    self.itself, self.weights = self, self.Weights()
    1 / 0
"""

    with pytest.raises(InvalidConfig, match="division by zero"):
        load(tmp_path, body)

    assert freed.exists()


@pytest.mark.parametrize("body", ["def load(self, context):\n    1 / 0", "inputs = 5", "class"])
def test_a_model_that_does_not_load_leaves_no_modules(tmp_path, body):
    known = own_modules()

    with pytest.raises(InvalidConfig):
        load(tmp_path, body)

    assert own_modules() == known


def test_a_file_replaced_within_a_second_is_compiled_again(tmp_path, monkeypatch):
    # the default, which the environment of the tests may change
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    body = "from .near import N\ndef predict(self, inputs, request):\n    return {'y': self.N}"
    found = []
    for number in (1, 2):
        near = tmp_path / "near.py"
        near.write_text(f"N = [{number}]\n")
        os.utime(near, (1e9, 1e9))
        model = load(tmp_path, body)
        (output,) = model.infer(InferRequest("m", "1", (X,)))
        found += output.array.tolist()
        model.close()

    assert found == [1, 2]


def test_a_neighbour_that_was_added_within_a_second_is_found(tmp_path):
    body = "from .NAME import N\ndef predict(self, inputs, request):\n    return {'y': self.N}"
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("N = [1]\n")
        write_python(tmp_path / "model.py", body.replace("NAME", name))
        os.utime(tmp_path, (1e9, 1e9))

        model = PythonBackend().load(ModelSource("m", "1", tmp_path / "model.py"))

        assert model.infer(InferRequest("m", "1", (X,)))[0].array.tolist() == [1]


ON_PATH = """\
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
IMPORT

from moorage_runtime.backends.python import PythonModel


class Model(PythonModel):
    def predict(self, inputs, request):
        return {"y": [VALUE]}
"""


@pytest.fixture
def own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("own_words", None)


def load_on_path(folder, number, import_="import own_words", value="own_words.NUMBER"):
    folder.mkdir(exist_ok=True)
    text = f"NUMBER = {number}\n\ndef number():\n    return NUMBER\n"
    (folder / "own_words.py").write_text(text)
    (folder / "model.py").write_text(ON_PATH.replace("IMPORT", import_).replace("VALUE", value))
    return PythonBackend().load(ModelSource("m", "1", folder / "model.py"))


def number_of(model):
    return model.infer(InferRequest("m", "1", (X,)))[0].array.tolist()


@pytest.mark.usefixtures("own_path")
def test_the_next_content_of_a_model_has_the_next_modules_on_its_path(tmp_path):
    before, after = (load_on_path(tmp_path, number) for number in (1, 2))

    assert [number_of(before), number_of(after)] == [[1], [2]]


@pytest.mark.usefixtures("own_path")
@pytest.mark.parametrize(
    ("import_", "value"),
    [
        ("import own_words", "own_words.NUMBER"),
        ("from own_words import number", "number()"),
    ],
)
def test_a_model_that_would_use_a_module_of_another_is_refused(tmp_path, import_, value):
    load_on_path(tmp_path / "one", 1)

    with pytest.raises(
        InvalidConfig, match=r"^model\.py imports 'own_words', which is that of another"
    ):
        load_on_path(tmp_path / "two", 2, import_, value)


@pytest.mark.usefixtures("own_path")
def test_a_closed_model_leaves_its_names_to_others(tmp_path):
    load_on_path(tmp_path / "one", 1).close()

    assert number_of(load_on_path(tmp_path / "two", 2)) == [2]


@pytest.mark.usefixtures("own_path")
def test_equal_modules_of_two_models_can_be_one(tmp_path):
    models = [load_on_path(tmp_path / name, 1) for name in ("one", "two")]

    assert [number_of(model) for model in models] == [[1], [1]]


def test_a_limit_for_calls_requires_a_process_of_its_own(tmp_path):
    write_python(tmp_path / "model.py", "pass")
    source = ModelSource("m", "1", tmp_path / "model.py", options={"python_timeout_seconds": 10.0})

    with pytest.raises(InvalidConfig) as caught:
        IsolatingPythonBackend(Packages()).load(source)

    assert caught.value.message == (
        "model.yaml: python.timeout_seconds is 10, but a call in the server's process cannot be "
        "ended: set python.isolation to process, or timeout_seconds instead"
    )
