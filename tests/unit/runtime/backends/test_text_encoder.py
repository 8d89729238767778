"""Encoders: answers equal those of the tokenizer and ONNX Runtime with padding and a mask."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from support.encoders import HIDDEN, LABELS, SENTENCES, write_encoder

tokenizers = pytest.importorskip("tokenizers", reason="the extra 'text' is not installed")
pytestmark = pytest.mark.timeout(30)

WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})
TEXTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
        st.text(max_size=20).filter(lambda text: "\x00" not in text),
    ),
    min_size=1,
    max_size=6,
)
MODULES = [
    {"idx": index, "path": path, "type": f"sentence_transformers.models.{kind}"}
    for index, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    )
]


def backend():
    from moorage_runtime.backends.text_encoder.backend import (  # noqa: PLC0415 - needs tokenizers
        TextEncoderBackend,
    )

    return TextEncoderBackend(OnnxBackend())


def load(path: Path, **options: Any):
    return backend().load(ModelSource("m", "1", path, options=options))


def infer(model: Any, *texts: str | bytes) -> dict[str, Any]:
    elements = [text.encode() if isinstance(text, str) else text for text in texts]
    array = np.array(elements, np.object_)
    request = InferRequest("m", "1", (Tensor("text", Datatype.BYTES, array),))
    return {output.name: output.array for output in model.infer(request)}


def reference(path: Path, output: str, texts: list[str], limit: int = 512) -> tuple[Any, Any]:
    """What the graph returns for all texts in one padded batch, and the mask."""
    folder = path.parent if (path.parent / "tokenizer.json").exists() else path.parent.parent
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    encoded = tokenizer.encode_batch(texts)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {
        "input_ids": np.array([each.ids for each in encoded], np.int64),
        "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
        "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
    }
    (found,) = session.run([output], feeds)
    return found, feeds["attention_mask"]


def softmax(logits: Any) -> Any:
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("classifier"), "logits")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("embedder"), graph="onnx/model.onnx")


@settings(max_examples=30)
@given(TEXTS)
def test_scores_equal_those_of_one_padded_batch(classifier, texts):
    logits, _ = reference(classifier, "logits", texts)
    expected = softmax(logits)

    found = infer(load(classifier), *texts)

    assert found["scores"].dtype == np.float32
    for row, (labels, scores) in enumerate(zip(found["labels"], found["scores"], strict=True)):
        by_label = dict(zip([label.decode() for label in labels], scores, strict=True))
        wanted = dict(zip(LABELS, expected[row], strict=True))
        assert by_label == pytest.approx(wanted, abs=1e-5)
        assert list(scores) == sorted(scores, reverse=True)


@settings(max_examples=30)
@given(TEXTS)
def test_mean_embeddings_equal_those_of_one_padded_batch(embedder, texts):
    tokens, mask = reference(embedder, "last_hidden_state", texts)
    weights = mask[..., None].astype(np.float32)
    expected = (tokens * weights).sum(axis=1) / weights.sum(axis=1)

    found = infer(load(embedder), *texts)["embedding"]

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


@settings(max_examples=30)
@given(TEXTS)
def test_an_answer_does_not_depend_on_the_other_texts(embedder, texts):
    model = load(embedder)

    together = infer(model, *texts)["embedding"]

    for row, text in enumerate(texts):
        np.testing.assert_allclose(together[row], infer(model, text)["embedding"][0], atol=1e-6)


def test_the_metadata_of_a_classifier(classifier):
    model = load(classifier)

    assert model.platform == "huggingface_onnx"
    assert model.inputs == (TensorSpec("text", Datatype.BYTES, (-1,)),)
    assert model.outputs == (
        TensorSpec("labels", Datatype.BYTES, (-1, 3)),
        TensorSpec("scores", Datatype.FP32, (-1, 3)),
    )


def test_the_metadata_of_an_embedder(embedder):
    assert load(embedder).outputs == (TensorSpec("embedding", Datatype.FP32, (-1, HIDDEN)),)


def test_a_request_without_texts_has_an_answer_without_rows(classifier, embedder):
    assert infer(load(classifier))["labels"].shape == (0, 3)
    assert infer(load(embedder))["embedding"].shape == (0, HIDDEN)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("pooling_mode_cls_token", lambda tokens: tokens[:, 0]),
        ("pooling_mode_max_tokens", lambda tokens: tokens.max(axis=1)),
        ("pooling_mode_mean_tokens", lambda tokens: tokens.mean(axis=1)),
    ],
)
def test_pooling_and_normalization_follow_the_files(tmp_path, mode, expected):
    path = write_encoder(
        tmp_path, modules=MODULES, **{"1_Pooling__config": {mode: True, "word": False}}
    )
    tokens, _ = reference(path, "last_hidden_state", [SENTENCES[0]])

    (found,) = infer(load(path), SENTENCES[0])["embedding"]

    (row,) = expected(tokens)
    np.testing.assert_allclose(found, row / np.linalg.norm(row), atol=1e-6)


def test_without_normalization_embeddings_have_their_own_length(tmp_path):
    path = write_encoder(
        tmp_path, modules=MODULES[:2], **{"1_Pooling__config": {"pooling_mode": "cls"}}
    )
    tokens, _ = reference(path, "last_hidden_state", [SENTENCES[1]])

    found = infer(load(path), SENTENCES[1])["embedding"]

    np.testing.assert_allclose(found, tokens[:, 0], atol=1e-6)


def test_embeddings_that_the_graph_pools_are_used(tmp_path):
    path = write_encoder(tmp_path, "sentence_embedding")
    expected, _ = reference(path, "sentence_embedding", list(SENTENCES))

    found = infer(load(path), *SENTENCES)["embedding"]

    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("documents", "options", "limit"),
    [
        ({}, {}, 512),
        ({"tokenizer_config": {"model_max_length": 5}}, {}, 5),
        ({"tokenizer_config": {"model_max_length": 5}}, {"text_max_tokens": 4}, 4),
        ({"tokenizer_config": {"model_max_length": 1e30}}, {}, 512),
    ],
    ids=["none", "tokenizer", "model.yaml", "no limit"],
)
def test_a_long_text_is_cut_off(tmp_path, documents, options, limit):
    path = write_encoder(tmp_path, "logits", **documents)
    logits, _ = reference(path, "logits", [SENTENCES[0]], limit)

    found = infer(load(path, **options), SENTENCES[0])

    assert found["scores"][0] == pytest.approx(sorted(softmax(logits)[0], reverse=True), abs=1e-5)


@pytest.mark.parametrize(("wanted", "kept"), [(4, 4), (None, HIDDEN), (99, HIDDEN)])
@pytest.mark.parametrize("output", ["last_hidden_state", "sentence_embedding"])
def test_an_embedding_is_shortened_after_it_was_normalized(tmp_path, output, wanted, kept):
    documents = {"modules": MODULES, "1_Pooling__config": {"pooling_mode_mean_tokens": True}}
    short = {"config_sentence_transformers": {"truncate_dim": wanted}}
    whole = infer(load(write_encoder(tmp_path / "whole", output, **documents)), *SENTENCES)

    model = load(write_encoder(tmp_path / "short", output, **documents, **short))

    assert model.outputs[0].shape == (-1, kept)
    found = infer(model, *SENTENCES)["embedding"]
    np.testing.assert_array_equal(found, whole["embedding"][:, :kept])


def test_a_prompt_and_lower_case_precede_the_tokenizer(tmp_path):
    path = write_encoder(
        tmp_path,
        modules=MODULES[:2],
        sentence_bert_config={"do_lower_case": True, "max_seq_length": 32},
        config_sentence_transformers={
            "prompts": {"query": "the model: "},
            "default_prompt_name": "query",
        },
        **{"1_Pooling__config": {"pooling_mode_cls_token": True}},
    )
    plain = write_encoder(tmp_path / "plain")

    found = infer(load(path), "GOOD answer")["embedding"]

    tokens, _ = reference(plain, "last_hidden_state", ["the model: good answer"])
    np.testing.assert_allclose(found, tokens[:, 0], atol=1e-6)


@pytest.mark.parametrize(("side", "kept"), [(None, "left"), ("right", "right")])
def test_a_long_text_is_cut_off_where_the_tokenizer_says(tmp_path, side, kept):
    path = write_encoder(
        tmp_path, "logits", tokenizer_config={"model_max_length": 4, "truncation_side": side}
    )
    file = str(tmp_path / "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.enable_truncation(5, direction="left")
    tokenizer.save(file)

    found = infer(load(path), "the model is good answers")["scores"]

    short = {"left": "good answers", "right": "the model"}[kept]
    np.testing.assert_array_equal(found, infer(load(path), short)["scores"])


@pytest.mark.parametrize("modules", [MODULES[:2], None])
def test_white_space_around_a_text_counts_as_in_the_library_of_the_model(tmp_path, modules):
    path = write_encoder(tmp_path, **({"modules": modules} if modules else {}), **{
        "1_Pooling__config": {"pooling_mode_mean_tokens": True}
    })  # fmt: skip
    file = str(tmp_path / "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "isolated")
    tokenizer.save(file)

    plain, spaced = infer(load(path), "good answer", " good answer\n")["embedding"]

    # Sentence Transformers removes it, Transformers does not
    assert np.array_equal(plain, spaced) is (modules is not None)


@pytest.mark.parametrize(
    "shape", [{"texts": 1}, {"tokens": 16}, {"texts": 1, "tokens": 16, "kind": TensorProto.INT32}]
)
def test_a_graph_with_fixed_sizes_gives_the_same_answers(tmp_path, embedder, shape):
    path = write_encoder(tmp_path, **shape)

    found = infer(load(path), *SENTENCES)["embedding"]

    np.testing.assert_allclose(found, infer(load(embedder), *SENTENCES)["embedding"], atol=1e-6)


def test_a_graph_without_mask_and_types_gives_right_answers(tmp_path):
    path = write_encoder(tmp_path, inputs=["input_ids"])
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    found = infer(load(path), *SENTENCES)["embedding"]

    for row, text in enumerate(SENTENCES):
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        (tokens,) = session.run(None, {"input_ids": ids})
        np.testing.assert_allclose(found[row], tokens[0].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"problem_type": "multi_label_classification"}, lambda x: 1 / (1 + np.exp(-x))),
        ({"problem_type": "regression"}, lambda x: x),
        ({"problem_type": "single_label_classification"}, lambda x: softmax(x[None])[0]),
    ],
    ids=["several labels", "regression", "one label"],
)
def test_scores_follow_the_kind_of_the_problem(tmp_path, config, expected):
    labels = {"id2label": {str(index): label for index, label in enumerate(LABELS)}}
    full = {"architectures": ["BertForSequenceClassification"], **labels, **config}
    path = write_encoder(tmp_path, "logits", config=full)
    (logits,), _ = reference(path, "logits", [SENTENCES[3]])

    found = infer(load(path), SENTENCES[3])

    assert found["scores"][0] == pytest.approx(sorted(expected(logits), reverse=True), abs=1e-5)


@pytest.mark.parametrize(
    ("element", "words"),
    [(b"a\xff", "element 1 is not UTF-8 text (at byte 1)")],
)
def test_an_invalid_text_is_refused(classifier, element, words):
    with pytest.raises(InvalidRequest) as caught:
        infer(load(classifier), "good", element)

    assert words in caught.value.message


@pytest.mark.parametrize(
    ("output", "documents", "options", "words"),
    [
        ("logits", {"config": {"architectures": ["BertForMaskedLM"]}}, {}, "BertForMaskedLM"),
        ("logits", {"config": {}}, {}, "set text.task in model.yaml"),
        ("logits", {"config": []}, {}, "config.json: [] is invalid"),
        ("logits", {}, {"text_task": "embed"}, "no output for the task embed"),
        ("last_hidden_state", {}, {"text_task": "classify"}, "no output for the task classify"),
        (
            "logits",
            {"config": {"architectures": ["XForSequenceClassification"], "id2label": {"1": "a"}}},
            {},
            "id2label",
        ),
        (
            "logits",
            {
                "config": {
                    "architectures": ["XForSequenceClassification"],
                    "id2label": {"0": "a", "1": "b"},
                }
            },
            {},
            "id2label has 2 labels, but the graph returns 3",
        ),
        (
            "last_hidden_state",
            {
                "modules": [
                    *MODULES[:2],
                    {**MODULES[2], "type": "sentence_transformers.models.Dense"},
                ]
            },
            {},
            "Transformer, Pooling, Dense are not supported",
        ),
        (
            "last_hidden_state",
            {"modules": MODULES, "1_Pooling__config": {"pooling_mode_lasttoken": True}},
            {},
            "the pooling lasttoken is not supported",
        ),
        (
            "last_hidden_state",
            {
                "modules": MODULES,
                "1_Pooling__config": {
                    "pooling_mode_cls_token": True,
                    "pooling_mode_max_tokens": True,
                },
            },
            {},
            "the pooling cls_token and max_tokens is not supported",
        ),
        (
            "last_hidden_state",
            {
                "modules": MODULES,
                "1_Pooling__config": {"pooling_mode": "mean"},
                "config_sentence_transformers": {"default_prompt_name": "query", "prompts": {}},
            },
            {},
            "default_prompt_name is 'query'",
        ),
    ],
)
def test_what_is_not_supported_is_refused(tmp_path, output, documents, options, words):
    path = write_encoder(tmp_path, output, **documents)

    with pytest.raises(InvalidConfig) as caught:
        load(path, **options)

    assert words in caught.value.message
    assert str(tmp_path) not in caught.value.message


def test_another_input_of_the_graph_is_refused(tmp_path):
    path = write_encoder(tmp_path, inputs=["input_ids", "pixel_values"])

    with pytest.raises(InvalidConfig, match="pixel_values"):
        load(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "tokenizer.json is not a valid tokenizer"), (None, "has no tokenizer.json")],
)
def test_an_unusable_tokenizer_is_refused(tmp_path, content, words):
    path = write_encoder(tmp_path / "m")
    tokenizer = path.with_name("tokenizer.json")
    tokenizer.unlink()
    if content is not None:
        tokenizer.write_text(content)

    with pytest.raises(InvalidConfig) as caught:
        load(path)

    assert words in caught.value.message
    assert str(tmp_path) not in caught.value.message


def test_an_invalid_file_is_refused_with_its_name(tmp_path):
    path = write_encoder(tmp_path)
    path.with_name("config.json").write_text("{")

    with pytest.raises(InvalidConfig, match=r"config\.json is not valid JSON"):
        load(path)


def test_declared_tensors_must_be_those_of_the_encoder(classifier):
    wrong = (TensorSpec("text", Datatype.INT64, (-1,)),)

    with pytest.raises(InvalidConfig, match=r"inputs\[0\]"):
        backend().load(ModelSource("m", "1", classifier, inputs=wrong))


def test_the_configuration_is_not_changed_by_loading(classifier):
    before = {path.name: path.read_bytes() for path in classifier.parent.iterdir()}

    infer(load(classifier), "good")

    assert {path.name: path.read_bytes() for path in classifier.parent.iterdir()} == before
    assert json.loads(before["tokenizer.json"])["padding"]["strategy"] == {"Fixed": 16}
