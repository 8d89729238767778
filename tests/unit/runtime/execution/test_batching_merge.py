import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.execution.batching import merge
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

DATATYPES = sorted(Datatype)


def tensor(name="x", shape=(1, 2), datatype=Datatype.FP32, fill=0, **parameters) -> Tensor:
    value = b"%d" % fill if datatype is Datatype.BYTES else fill
    return Tensor(name, datatype, np.full(shape, value, NUMPY_DTYPE[datatype]), parameters)


def ask(*inputs: Tensor, outputs=(), request_id=None, **parameters) -> InferRequest:
    return InferRequest("m", "", inputs or (tensor(),), outputs, request_id, parameters)


@st.composite
def similar(draw: st.DrawFn) -> list[InferRequest]:
    """Requests with one key: any tensors, any number of rows each."""
    kinds = draw(
        st.lists(
            st.tuples(
                st.sampled_from(DATATYPES), st.lists(st.integers(0, 3), max_size=2).map(tuple)
            ),
            min_size=1,
            max_size=3,
        )
    )
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return [
        ask(
            *(
                tensor(str(place), (size, *dims), datatype, fill=number % 2)
                for place, (datatype, dims) in enumerate(kinds)
            ),
            request_id=str(number),
        )
        for number, size in enumerate(sizes)
    ]


@given(similar())
def test_a_merged_request_splits_into_its_parts(requests):
    merged = merge.merge(requests)

    parts = merge.split(merged.inputs, [merge.rows(request) for request in requests])

    assert len({merge.key(request) for request in requests}) == 1
    assert merge.rows(merged) == sum(map(merge.rows, requests))
    for part, request in zip(parts, requests, strict=True):
        for found, given_ in zip(part, request.inputs, strict=True):
            np.testing.assert_array_equal(found.array, given_.array)
            assert found.array.flags.c_contiguous
            assert found.array.dtype == given_.array.dtype


def test_a_merged_request_asks_for_what_each_of_its_parts_asks_for():
    wanted = (RequestedOutput("y", {"classification": 2}),)
    inputs = (tensor("x", (1, 2), top=1), tensor("z", (1,), Datatype.INT64))
    request = InferRequest("iris", "3", inputs, wanted, "id", {"temperature": 1})

    merged = merge.merge([request, request])

    assert (merged.model_name, merged.model_version) == ("iris", "3")
    assert (merged.outputs, merged.id) == (wanted, None)
    assert merged.parameters == {"temperature": 1}
    assert [(each.name, each.datatype, each.parameters) for each in merged.inputs] == [
        ("x", Datatype.FP32, {"top": 1}),
        ("z", Datatype.INT64, {}),
    ]


def test_each_part_of_an_answer_describes_its_tensors():
    outputs = [tensor("y", (3, 2), top=1), tensor("label", (3,), Datatype.INT64)]

    for part in merge.split(outputs, [1, 2]):
        assert [(each.name, each.datatype, each.parameters) for each in part] == [
            ("y", Datatype.FP32, {"top": 1}),
            ("label", Datatype.INT64, {}),
        ]


@pytest.mark.parametrize(
    "other",
    [
        ask(tensor("z")),
        ask(tensor(datatype=Datatype.FP64)),
        ask(tensor(shape=(1, 3))),
        ask(tensor(shape=(1, 2, 1))),
        ask(tensor(top=1)),
        ask(tensor(), tensor("z")),
        ask(outputs=(RequestedOutput("y"),)),
        ask(outputs=(RequestedOutput("y", {"classification": 2}),)),
        ask(temperature=1),
    ],
)
def test_requests_that_differ_are_not_merged(other):
    assert merge.key(other) is not None
    assert merge.key(other) != merge.key(ask())


def test_one_and_true_are_different_parameters():
    assert merge.key(ask(temperature=1)) != merge.key(ask(temperature=True))


def test_rows_ids_and_the_order_of_parameters_do_not_keep_requests_apart():
    first = ask(tensor(shape=(1, 2)), request_id="a", a=1, b=2)
    second = ask(tensor(shape=(7, 2), fill=3), request_id="b", b=2, a=1)

    assert merge.key(first) == merge.key(second)


@pytest.mark.parametrize(
    "request_",
    [
        ask(tensor(shape=())),
        ask(tensor(shape=(0, 2))),
        ask(tensor(shape=(1, 2)), tensor("z", (2, 2))),
        ask(sequence_id=1),
        ask(sequence_id=1, sequence_start=True),
        InferRequest("m", "", ()),
    ],
)
def test_requests_without_one_batch_or_of_a_sequence_run_alone(request_):
    assert merge.key(request_) is None


@pytest.mark.parametrize("shape", [(), (1,), (2, 2), (4, 1)])
def test_an_answer_without_a_row_for_each_row_cannot_be_split(shape):
    with pytest.raises(merge.SplitError, match=r"output 'y' has shape .* for a batch of 3"):
        merge.split([tensor("y", shape)], [1, 2])
