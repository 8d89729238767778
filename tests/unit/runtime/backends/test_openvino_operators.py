"""Operators that OpenVINO computes wrongly, or that end the process."""

import itertools
import random
from pathlib import Path

import numpy as np
import openvino as ov
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

ops = ov.opset13
WORDS = [b"", b"a", b"bc", b"fifteen letters", b"sixteen  letters", b"w" * 40, b"\xff", b"a\x00b"]


def write(path: Path, parameters, *results) -> Path:
    names = [f"y{number}" for number in range(len(results))]
    found = [ops.result(each, name=name) for name, each in zip(names, results, strict=True)]
    for name, parameter in zip("xi", parameters, strict=False):
        parameter.output(0).set_names({name})
    for name, result in zip(names, found, strict=True):
        result.input_value(0).add_names({name})
    ov.save_model(ov.Model(found, parameters, "model"), path, compress_to_fp16=False)
    return path


def load(path: Path):
    return OpenvinoBackend().load(ModelSource("m", "1", path))


def ask(model, **arrays):
    tensors = tuple(
        Tensor(name, Datatype.BYTES if array.dtype == "O" else Datatype.INT64, array)
        for name, array in arrays.items()
    )
    return {each.name: each.array for each in model.infer(InferRequest("m", "1", tensors))}


def text(*shape):
    return ops.parameter(list(shape), ov.Type.string)


SPLITTING = {
    "StridedSlice": lambda x: ops.strided_slice(x, [0, 0], [0, 0], [1, 2], [1, 1], [1, 1]),
    "Slice": lambda x: ops.slice(x, [0], [2], [1], [1]),
    "Split": lambda x: ops.split(x, 1, 3).output(0),
}


@pytest.mark.parametrize("kind", SPLITTING)
def test_an_operator_that_ends_the_process_is_refused(tmp_path, kind):
    x = text(-1, 3)
    path = write(tmp_path / "model.xml", [x], SPLITTING[kind](x))

    with pytest.raises(InvalidConfig, match=f"operator {kind} '.*' does not support text"):
        load(path)


def test_text_is_moved_as_numpy_moves_it(tmp_path):
    x, i = text(-1, -1), ops.parameter([-1], ov.Type.i64)
    turned = ops.transpose(x, [1, 0])
    first = ops.constant(np.array(0))
    path = write(
        tmp_path / "model.xml",
        [x, i],
        ops.gather(x, i, first),
        ops.concat([x, ops.gather(x, i, first)], 0),
        turned,
        ops.reshape(turned, [-1], special_zero=False),
        ops.squeeze(ops.unsqueeze(x, 1), 1),
        ops.shape_of(x),
    )
    model = load(path)
    chosen = random.Random(5)
    for rows, columns, count in itertools.product((1, 2, 4), (1, 3), (1, 5)):
        words = chosen.choices(WORDS, k=rows * columns)
        table = np.array(words, np.object_).reshape(rows, columns)
        places = np.array(chosen.choices(range(rows), k=count))

        found = ask(model, x=table, i=places)

        expected = (
            table[places],
            np.concatenate([table, table[places]]),
            table.T,
            table.T.reshape(-1),
            table,
            np.array([rows, columns]),
        )
        assert [each.tolist() for each in found.values()] == [each.tolist() for each in expected]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
@pytest.mark.parametrize("word", [b"", b"a"])
def test_text_without_a_character_is_empty(tmp_path, shape, word):
    """The library reserves a byte for each element, and does not initialize it."""
    x, i = text(*shape), text(*shape)
    rows = ops.unsqueeze(x, 0), ops.unsqueeze(i, 0)
    path = write(tmp_path / "model.xml", [x, i], ops.squeeze(rows[0], 0), ops.concat(rows, 0))
    model = load(path)
    words = np.full(shape, word, np.object_)

    for _ in range(5):
        found = ask(model, x=words, i=words)

        assert found["y0"].tolist() == words.tolist()
        assert found["y1"].tolist() == [words.tolist()] * 2


@pytest.mark.parametrize("is_sorted", [True, False])
def test_unique_values_do_not_depend_on_other_outputs(tmp_path, is_sorted):
    x = ops.parameter([-1], ov.Type.i64)
    y = ops.unique(x, sorted=is_sorted).output(0)
    model = load(write(tmp_path / "model.xml", [x], y))

    found = ask(model, x=np.array([3, 1, 3, 2, 1]))

    assert list(found) == ["y0"]
    assert found["y0"].tolist() == ([1, 2, 3] if is_sorted else [3, 1, 2])


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16"])
@pytest.mark.parametrize("by_rows", [True, False])
def test_a_product_of_narrow_integers_does_not_saturate(tmp_path, name, by_rows):
    """TensorFlow sums products of INT8 in INT32; the library's reader converts only the sums."""
    x = ops.parameter([-1, 3] if by_rows else [3, -1], ov.Type.i64)
    weights = np.array([[1, 2], [100, 101], [-128, 127]])
    dtype = np.dtype(f"{name[0]}{int(name[1:]) // 8}")
    table = ops.constant(weights.astype(dtype))
    product = ops.matmul(ops.convert(x, name), table, transpose_a=not by_rows, transpose_b=False)
    turned = ops.unsqueeze(ops.transpose(product, [1, 0]), 0)
    path = write(
        tmp_path / "model.xml", [x], ops.convert(product, "i64"), ops.convert(turned, "i64")
    )
    values = np.array([[100, 120, 3], [7, 90, 111]])

    found = ask(load(path), x=values if by_rows else values.T.copy())

    expected = values @ weights.astype(dtype).astype(np.int64)
    assert found["y0"].tolist() == expected.tolist()
    assert found["y1"].tolist() == [expected.T.tolist()]


def test_a_product_of_narrow_integers_keeps_its_datatype(tmp_path):
    x = ops.parameter([-1, 2], ov.Type.i64)
    table = ops.constant(np.array([[1], [2]], np.int8))
    product = ops.matmul(ops.convert(x, "i8"), table, transpose_a=False, transpose_b=False)
    turned = ops.transpose(product, [1, 0])
    model = load(write(tmp_path / "model.xml", [x], product, ops.abs(product), turned))

    found = ask(model, x=np.array([[3, -4]]))

    assert [each.dtype for each in found.values()] == [np.int8, np.int8, np.int8]
    assert [each.tolist() for each in found.values()] == [[[-5]], [[5]], [[-5]]]


def test_an_integer_of_more_than_32_bits_is_refused(tmp_path):
    """The library computes with its lower 32 bits."""
    x = ops.parameter([-1], ov.Type.i64)
    model = load(write(tmp_path / "model.xml", [x], ops.reshape(x, [-1, 1], special_zero=False)))

    for values in ([], [-(2**31), 2**31 - 1]):
        assert ask(model, x=np.array(values, np.int64))["y0"].ravel().tolist() == values
    for value in (2**31, -(2**31) - 1, 2**40 + 1):
        message = (
            f"input 'x' has the value {value}, and OpenVINO computes integers with 32 bits: must "
            "be from -2147483648 to 2147483647"
        )
        with pytest.raises(InvalidRequest, match=message):
            ask(model, x=np.array([3, value]))


def test_an_input_that_is_only_returned_has_64_bits(tmp_path):
    x, i = (ops.parameter([-1], ov.Type.i64) for _ in range(2))
    model = load(write(tmp_path / "model.xml", [x, i], x, ops.abs(i)))

    found = ask(model, x=np.array([2**62, -(2**40)]), i=np.array([-1, 2]))

    assert [each.tolist() for each in found.values()] == [[2**62, -(2**40)], [1, 2]]
