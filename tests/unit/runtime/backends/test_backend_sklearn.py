import logging
import pickle
import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn.cluster import KMeans
from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.tables.scikit_learn import ScikitLearnBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, RequestedOutput, Signature
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules

ROWS = np.array([[0.0, 0.0], [1.0, 0.5], [4.0, 5.0], [5.0, 4.0]])
PREDICT = TensorSpec("predict", Datatype.INT64, (-1,))
INPUT = TensorSpec("input-0", Datatype.FP64, (-1, 2), any_number=True)


def named(rows):
    return pd.DataFrame(rows, columns=["a", "b"])


def halve(rows):
    return rows / 2


def doubled_in_place(rows):
    rows *= 2
    return rows


class Picky(LinearRegression):
    """Fails in its own ways."""

    def predict(self, rows):
        if rows.any():
            raise KeyError("no such thing")
        return super().predict(rows)


class Custom(LinearRegression):
    """Answers with whatever its function makes of the rows."""

    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer

    def predict(self, rows):
        return self.answer(rows)


def list_of_numbers(rows):
    return [float(row[0]) for row in rows]


def list_of_labels(rows):
    return ["low" if row[0] < 1 else "high" for row in rows]


def list_of_rows(rows):
    return [row[::-1] for row in rows]


def squeezed(rows):
    return np.squeeze(rows[:, :1])


def without_rows(rows):
    return rows[rows[:, 0] > 0]


def mean(rows):
    return rows.mean()


def mapping(rows):
    return {"score": rows[:, 0]}


def saved(folder: Path, estimator, suffix: str = ".joblib", **options):
    path = folder / f"model{suffix}"
    if suffix == ".joblib":
        joblib.dump(estimator, path)
    elif suffix == ".skops":
        skops.io.dump(estimator, path)
    else:
        path.write_bytes(pickle.dumps(estimator))
    options["options"] = {"allow_pickle": True, **options.get("options", {})}
    return ScikitLearnBackend().load(ModelSource("m", "1", path, **options))


@pytest.mark.parametrize("suffix", [".joblib", ".pkl", ".pickle"])
def test_a_pickle_is_refused_before_it_is_read_unless_it_is_allowed(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")

    with pytest.raises(
        InvalidConfig,
        match=rf"model\{suffix} is a pickle.*spec\.model\.trusted.*--allow-pickle=true",
    ):
        ScikitLearnBackend().load(ModelSource("m", "1", path))

    assert not (tmp_path / "ran").exists()


def ask(model, array, *outputs, datatype=Datatype.FP64):
    tensor = Tensor(model.inputs[0].name, datatype, np.asarray(array))
    request = InferRequest("m", "1", (tensor,), tuple(map(RequestedOutput, outputs)))
    return {output.name: output for output in model.infer(request)}


@pytest.mark.parametrize(
    ("suffix", "platform"),
    [
        (".joblib", "sklearn_joblib"),
        (".pkl", "sklearn_pickle"),
        (".pickle", "sklearn_pickle"),
        (".skops", "sklearn_skops"),
    ],
)
def test_a_classifier_predicts_by_default_and_gives_more_on_request(tmp_path, suffix, platform):
    classifier = LogisticRegression().fit(ROWS, [0, 0, 1, 1])

    model = saved(tmp_path, classifier, suffix)

    assert model.platform == platform
    assert model.inputs == (INPUT,)
    assert model.outputs == (
        TensorSpec("predict", Datatype.INT64, (-1,)),
        TensorSpec("predict_proba", Datatype.FP64, (-1, 2), optional=True),
        TensorSpec("decision_function", Datatype.FP64, (-1,), optional=True),
    )
    assert list(ask(model, ROWS)) == ["predict"]
    assert ask(model, ROWS)["predict"].array.tolist() == [0, 0, 1, 1]
    answer = ask(model, ROWS, "predict_proba")
    assert np.array_equal(answer["predict_proba"].array, classifier.predict_proba(ROWS))


def test_every_output_is_a_signature(tmp_path):
    model = saved(tmp_path, DecisionTreeClassifier().fit(ROWS, [0, 0, 1, 1]))

    assert dict(model.signatures) == {
        "serving_default": Signature("predict", {"input-0": "input-0"}, {"predict": "predict"}),
        "predict_proba": Signature(
            "predict", {"input-0": "input-0"}, {"predict_proba": "predict_proba"}
        ),
    }


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "INT64", "FP16", "FP32", "FP64"])
def test_numbers_of_every_datatype_are_accepted(tmp_path, datatype):
    regression = LinearRegression().fit(ROWS, [0, 1, 2, 3])
    model = saved(tmp_path, regression)
    rows = np.array([[0, 1], [1, 1]])
    tensor = Tensor("input-0", Datatype(datatype), rows.astype(datatype_of(datatype)))
    request = InferRequest("m", "1", (tensor,))

    RequestRules(model.inputs, model.outputs, dynamic=False).check(request)
    (output,) = model.infer(request)

    assert output.datatype is Datatype.FP64
    assert np.array_equal(output.array, regression.predict(rows.astype(float)))


def datatype_of(name: str) -> str:
    return {"BOOL": "?", "UINT8": "u1", "INT64": "i8", "FP16": "f2", "FP32": "f4"}.get(name, "f8")


def test_text_is_not_taken_for_numbers(tmp_path):
    model = saved(tmp_path, LinearRegression().fit(ROWS, [0, 1, 2, 3]))
    tensor = Tensor("input-0", Datatype.BYTES, np.full((1, 2), b"1", np.object_))

    with pytest.raises(InvalidRequest, match="input 'input-0' has datatype BYTES"):
        RequestRules(model.inputs, model.outputs, dynamic=False).check(
            InferRequest("m", "1", (tensor,))
        )


def test_labels_of_text_are_bytes(tmp_path):
    model = saved(tmp_path, DecisionTreeClassifier().fit(ROWS, ["low", "low", "high", "hög"]))

    output = ask(model, ROWS)["predict"]

    assert output.datatype is Datatype.BYTES
    assert output.array.tolist() == [b"low", b"low", b"high", "hög".encode()]


def test_a_transformer_without_predict_transforms(tmp_path):
    model = saved(tmp_path, StandardScaler().fit(ROWS))

    assert [spec.name for spec in model.outputs] == ["transform"]
    assert ask(model, ROWS)["transform"].array.mean() == pytest.approx(0)


def test_clusters_and_distances_come_from_one_estimator(tmp_path):
    model = saved(tmp_path, KMeans(2, n_init=1, random_state=0).fit(ROWS))

    assert model.outputs == (
        TensorSpec("predict", Datatype.INT32, (-1,)),
        TensorSpec("transform", Datatype.FP64, (-1, 2), optional=True),
    )


@pytest.mark.parametrize("wrap", [np.array, named])
def test_an_estimator_that_takes_only_fp32_gets_it(tmp_path, wrap):
    known = make_pipeline(StandardScaler(), KMeans(2, n_init=1, random_state=0))
    known.fit(wrap(ROWS.astype(np.float32)))

    model = saved(tmp_path, known)

    assert [(spec.datatype, spec.shape) for spec in model.inputs] == [(Datatype.FP32, (-1, 2))]
    expected = known.predict(wrap(ROWS.astype(np.float32))).tolist()
    assert ask(model, ROWS)["predict"].array.tolist() == expected


@pytest.mark.parametrize("wrap", [np.array, named])
@pytest.mark.parametrize("writable", [True, False])
def test_an_estimator_that_writes_into_its_rows_answers_each_method_for_the_request(
    tmp_path, wrap, writable
):
    known = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    known.fit(wrap(ROWS), [0, 0, 1, 1])
    rows = ROWS.copy()
    rows.flags.writeable = writable

    answer = ask(saved(tmp_path, known), rows, "predict", "predict_proba", "decision_function")

    for name, output in answer.items():
        expected = getattr(known, name)(wrap(ROWS))
        assert output.array.tolist() == expected.tolist()
    assert np.array_equal(rows, ROWS)


def test_an_estimator_that_writes_into_its_rows_gets_rows_that_it_can_write(tmp_path):
    model = saved(tmp_path, FunctionTransformer(doubled_in_place).fit(ROWS))
    rows = ROWS.copy()
    rows.flags.writeable = False  # as those of binary data and of gRPC

    assert ask(model, rows)["transform"].array.tolist() == (ROWS * 2).tolist()


@pytest.mark.parametrize("wrap", [np.array, named])
@pytest.mark.parametrize(
    "first",
    [FunctionTransformer(np.log), PowerTransformer(method="box-cox")],
    ids=["log", "power"],
)
def test_an_estimator_that_refuses_zeros_is_tried_with_ones(tmp_path, first, wrap):
    known = make_pipeline(first, LinearRegression()).fit(wrap(ROWS + 1), [0, 1, 2, 3])

    model = saved(tmp_path, known)

    assert model.outputs == (TensorSpec("predict", Datatype.FP64, (-1,)),)
    expected = known.predict(wrap(ROWS + 1)).tolist()
    assert ask(model, ROWS + 1)["predict"].array.tolist() == expected


def test_a_declared_input_of_text_goes_through_a_pipeline(tmp_path):
    texts = ["good fine", "fine", "bad poor", "poor"]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 1, 0, 0])
    declared = (TensorSpec("text", Datatype.BYTES, (-1,)),)

    model = saved(tmp_path, pipeline, inputs=declared)
    words = np.array([b"good", b"poor"], np.object_)

    assert model.inputs == declared
    assert ask(model, words, datatype=Datatype.BYTES)["predict"].array.tolist() == [1, 0]


def test_a_declared_datatype_is_what_the_estimator_gets(tmp_path):
    declared = (TensorSpec("x", Datatype.FP32, (-1, 2)),)

    model = saved(tmp_path, FunctionTransformer(halve).fit(ROWS), inputs=declared)

    assert model.outputs[0].datatype is Datatype.FP32


def test_declared_outputs_need_no_trial_run(tmp_path):
    encoder = make_pipeline(FunctionTransformer(halve), OneHotEncoder(sparse_output=False))
    encoder.fit(np.array([[2.0], [4.0]]))
    declared = (TensorSpec("transform", Datatype.FP64, (-1, 2)),)

    with pytest.raises(
        InvalidConfig,
        match=r"model\.joblib: transform failed for an example of zeros or empty .*: declare the "
        "inputs in model.yaml if some are text, otherwise the outputs",
    ):
        saved(tmp_path, encoder)
    with pytest.raises(InvalidConfig, match=r"\): declare the outputs in model.yaml"):
        saved(tmp_path, encoder, inputs=(TensorSpec("x", Datatype.FP64, (-1, 1)),))
    model = saved(tmp_path, encoder, outputs=declared)

    assert ask(model, [[4.0]])["transform"].array.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("encoder", [OneHotEncoder(sparse_output=False), OrdinalEncoder()])
@pytest.mark.parametrize("wrap", [np.array, named])
def test_the_trial_row_has_categories_that_the_encoder_knows(tmp_path, encoder, wrap):
    rows = wrap([[3, 5], [4, 7]])
    known = encoder.fit_transform(rows)

    model = saved(tmp_path, encoder)

    assert ask(model, [[3.0, 5.0], [4.0, 7.0]])["transform"].array.tolist() == known.tolist()
    with pytest.raises(InvalidRequest, match="Found unknown categories"):
        ask(model, [[0.0, 0.0]])


def test_the_trial_row_of_declared_text_has_categories_that_the_encoder_knows(tmp_path):
    encoder = OrdinalEncoder().fit(np.array([["a", "x"], ["b", "y"]], np.object_))

    model = saved(tmp_path, encoder, inputs=(TensorSpec("words", Datatype.BYTES, (-1, 2)),))

    words = np.array([[b"b", b"x"]], np.object_)
    answer = ask(model, words, datatype=Datatype.BYTES)["transform"].array
    assert answer.tolist() == [[1.0, 0.0]]


def test_values_that_the_estimator_refuses_are_a_client_error(tmp_path):
    model = saved(tmp_path, LinearRegression().fit(ROWS, [0, 1, 2, 3]))

    with pytest.raises(InvalidRequest, match="refuses the input: ValueError: Input X contains"):
        ask(model, [[np.nan, 1.0]])


def test_any_other_error_is_a_model_error(tmp_path):
    model = saved(tmp_path, Picky().fit(ROWS, [0, 1, 2, 3]))

    with pytest.raises(ModelFailed, match="KeyError: 'no such thing'"):
        ask(model, [[1.0, 1.0]])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (list_of_numbers, [0.0, 1.0, 4.0, 5.0]),
        (list_of_labels, [b"low", b"high", b"high", b"high"]),
        (list_of_rows, ROWS[:, ::-1].tolist()),
        (squeezed, [0.0, 1.0, 4.0, 5.0]),
    ],
)
def test_a_list_has_an_entry_for_each_row(tmp_path, answer, expected):
    model = saved(tmp_path, Custom(answer).fit(ROWS, [0, 1, 2, 3]))

    assert [(spec.name, spec.shape[0]) for spec in model.outputs] == [("predict", -1)]
    assert ask(model, ROWS)["predict"].array.tolist() == expected
    assert ask(model, ROWS[2:3])["predict"].array.tolist() == expected[2:3]


def test_an_answer_with_another_number_of_rows_is_a_model_error(tmp_path):
    model = saved(tmp_path, Custom(mean).fit(ROWS, [0, 1, 2, 3]))

    with pytest.raises(ModelFailed, match=r"has shape \[\]: its first dimension must be 4"):
        ask(model, ROWS)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            without_rows,
            r"'predict' of the model has shape \[0, 2\]: its first dimension must be 1",
        ),
        (mapping, r"'predict' of the model contains dict: must contain str or bytes"),
    ],
)
def test_an_answer_that_is_no_tensor_of_rows_is_reported_without_advice(tmp_path, answer, message):
    with pytest.raises(InvalidConfig, match=rf"^model\.joblib: output {message}[^:]*$"):
        saved(tmp_path, Custom(answer).fit(ROWS, [0, 1, 2, 3]))


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        ({"a": 1}, {}, r"model\.joblib contains dict"),
        (LinearRegression(), {}, r"model\.joblib: the number of features of the model is"),
        (
            LinearRegression().fit(ROWS, [0, 1, 2, 3]),
            {"outputs": (TensorSpec("predict_proba", Datatype.FP64, (-1,)),)},
            r"model\.yaml: outputs\[0\]\.name: the estimator has no method",
        ),
        (
            LinearRegression().fit(ROWS, [0, 1, 2, 3]),
            {"inputs": (TensorSpec("a", Datatype.FP64, (-1,)),) * 2},
            r"model\.yaml: inputs has duplicate names",
        ),
    ],
)
def test_an_estimator_that_cannot_be_served_is_reported(tmp_path, estimator, options, message):
    with pytest.raises(InvalidConfig, match=message):
        saved(tmp_path, estimator, **options)


@pytest.mark.parametrize("suffix", [".joblib", ".skops"])
@pytest.mark.parametrize("content", [b"", b"not a model", b"\x80\x05garbage"])
def test_an_invalid_file_is_reported_without_its_path(tmp_path, suffix, content, caplog):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content)

    with caplog.at_level(logging.CRITICAL), pytest.raises(InvalidConfig) as caught:
        ScikitLearnBackend().load(ModelSource("m", "1", path, options={"allow_pickle": True}))

    assert caught.value.message.startswith(f"model{suffix} ")
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08ab", b"\x80\x05\x95"])
def test_a_file_that_is_not_a_pickle_is_called_so(tmp_path, content):
    path = tmp_path / "model.pkl"
    path.write_bytes(content)

    with pytest.raises(InvalidConfig, match=r"it is not a pickle, or is damaged \("):
        ScikitLearnBackend().load(ModelSource("m", "1", path, options={"allow_pickle": True}))


PACKAGE = "put it into a package in the image of the server, or write a Python model"
SAME_VERSION = rf"save it with scikit-learn {re.escape(sklearn.__version__)}, which this server"


@pytest.mark.parametrize("header", [b"", b"\x80\x04"], ids=["old", "new"])
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("__main__", f"'Mine' of module '__main__', .*: {PACKAGE}"),
        ("my.features", f"module 'my', .*: {PACKAGE}"),
        ("sklearn.no_longer", f"module 'sklearn.no_longer', .*: {SAME_VERSION}"),
        ("sklearn.svm", f"'Mine' of module 'sklearn.svm', .*: {SAME_VERSION}"),
    ],
)
def test_a_pickle_that_needs_other_code_says_what_and_how_to_provide_it(
    tmp_path, header, module, message
):
    path = tmp_path / "model.pkl"
    path.write_bytes(header + f"c{module}\nMine\n.".encode())

    with pytest.raises(
        InvalidConfig, match=rf"^model\.pkl cannot be loaded: it refers to {message}"
    ):
        ScikitLearnBackend().load(ModelSource("m", "1", path, options={"allow_pickle": True}))


def test_an_estimator_of_another_version_is_called_so(tmp_path):
    scaler = StandardScaler().fit(ROWS)
    del scaler.scale_

    with pytest.raises(InvalidConfig, match=rf"no attribute 'scale_'\): {SAME_VERSION}"):
        saved(tmp_path, make_pipeline(scaler, LinearRegression().fit(ROWS, [0, 1, 2, 3])))


def test_the_first_error_of_an_estimator_that_fails_with_each_datatype_is_reported(tmp_path):
    encoder = OrdinalEncoder().fit([[0.1]])  # which FP32 does not have
    del encoder._infrequent_enabled

    with pytest.raises(InvalidConfig, match=rf"'_infrequent_enabled'\): {SAME_VERSION}"):
        saved(tmp_path, encoder)


class OlderTree:
    """A pickle with the tree of a version whose nodes have fewer fields."""

    def __reduce__(self):
        tree = DecisionTreeClassifier().fit(ROWS, [0, 1, 0, 1]).tree_
        kind, arguments, state = tree.__reduce__()
        nodes = state["nodes"]
        fields = [(name, nodes.dtype[name]) for name in nodes.dtype.names[:-1]]
        return kind, arguments, {**state, "nodes": np.zeros(len(nodes), fields)}


def test_trees_of_another_version_are_called_so(tmp_path):
    with pytest.raises(InvalidConfig, match=rf"its trees are of another version: {SAME_VERSION}"):
        saved(tmp_path, OlderTree())


def test_a_value_without_an_attribute_is_no_other_version(tmp_path):
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["good", "poor"], [0, 1])
    declared = (TensorSpec("text", Datatype.BYTES, (-1, 1)),)

    with pytest.raises(InvalidConfig, match=r"'lower'\): declare the outputs in model\.yaml"):
        saved(tmp_path, pipeline, inputs=declared)


def halved_distance(one, other):
    return np.abs(one - other).sum() / 2


def nearness(distances):
    return 1 / (1 + distances / distances.mean())


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (KNeighborsRegressor(2, weights="distance"), ""),
        (KNeighborsRegressor(2, weights=nearness), "weights of estimator KNeighborsRegressor"),
        # a function of two rows
        (KNeighborsRegressor(2, metric=halved_distance), ""),
        (make_pipeline(StandardScaler(), SVR(kernel=np.inner)), "kernel of estimator SVR"),
        (GradientBoostingRegressor(n_estimators=1), ""),
        (GradientBoostingRegressor(n_estimators=1, init="zero"), ""),
        (GradientBoostingRegressor(n_estimators=1, init=LinearRegression()), ""),
        (
            GradientBoostingRegressor(n_estimators=1, init=SVR(kernel=np.inner)),
            "kernel of estimator SVR",
        ),
    ],
)
def test_an_estimator_with_a_function_of_all_rows_is_not_merged(tmp_path, estimator, reason):
    model = saved(tmp_path, estimator.fit(ROWS, [0, 0, 1, 1]))

    assert reason in model.merge_obstacle
    assert bool(model.merge_obstacle) is bool(reason)


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"model\.npy is not a scikit-learn file.*\.pkl"):
        ScikitLearnBackend().load(ModelSource("m", "1", tmp_path / "model.npy"))


def test_an_unknown_type_in_a_skops_file_is_refused_and_named_unless_pickles_are_allowed(tmp_path):
    transformer = FunctionTransformer(halve).fit(ROWS)
    own = f"{halve.__module__}.halve"

    with pytest.raises(InvalidConfig, match=rf"{own}.*spec\.model\.trusted"):
        saved(tmp_path, transformer, ".skops", options={"allow_pickle": False})
    model = saved(tmp_path, transformer, ".skops")

    assert ask(model, [[2.0, 4.0]])["transform"].array.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (LogisticRegression(), ""),
        (make_pipeline(StandardScaler(), LogisticRegression()), ""),
        # a custom function may use the mean of the batch
        (make_pipeline(FunctionTransformer(halve), LogisticRegression()), "FunctionTransformer"),
        (BaggingRegressor(LinearRegression(), n_estimators=2), ""),
        # an ensemble is as its estimators are
        (
            BaggingRegressor(make_pipeline(FunctionTransformer(halve), LinearRegression())),
            "FunctionTransformer",
        ),
        # a subclass is not in the list
        (Picky(), "Picky"),
    ],
)
def test_only_estimators_that_are_known_to_keep_rows_apart_are_merged(tmp_path, estimator, reason):
    model = saved(tmp_path, estimator.fit(ROWS, [0, 0, 1, 1]), outputs=(PREDICT,))

    if reason:
        assert f"estimator {reason} is not known to keep the rows" in model.merge_obstacle
    else:
        assert model.merge_obstacle == ""
