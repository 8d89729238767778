"""What the JSON files beside an encoder say about it."""

from typing import Any

import numpy as np
import pytest

from moorage_runtime.backends.text_encoder.arithmetic import normalized, pooled, scored
from moorage_runtime.backends.text_encoder.description import (
    Description,
    Pooling,
    Scores,
    Task,
    describe,
)
from moorage_runtime.values.errors import InvalidConfig

CLASSIFIER = {"architectures": ["BertForSequenceClassification"]}
TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOLING = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
EMBEDDER = {
    "modules.json": [TRANSFORMER, POOLING],
    "1_Pooling/config.json": {"pooling_mode_cls_token": True},
}
BERT = {"max_position_embeddings": 512}
ROBERTA = {"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}


def described(files: dict[str, Any], *options: Any) -> Description:
    """The description of an encoder with these files."""
    return describe(files.get, *options)


def refusal(files: dict[str, Any], *options: Any) -> str:
    """Why an encoder with these files is refused."""
    with pytest.raises(InvalidConfig) as caught:
        described(files, *options)
    return caught.value.message


def test_the_files_of_an_embedder():
    found = described(
        {
            "config.json": {
                **CLASSIFIER,
                "id2label": {"0": "a"},
                "pad_token_id": 3,
                "max_position_embeddings": 512,
            },
            "tokenizer_config.json": {"truncation_side": "left", "model_max_length": 128},
            "modules.json": [TRANSFORMER, POOLING, NORMALIZE],
            "1_Pooling/config.json": {"pooling_mode_max_tokens": True, "word": 384},
            "sentence_bert_config.json": {"do_lower_case": True, "max_seq_length": 64},
            "config_sentence_transformers.json": {
                "prompts": {"query": "query: ", "passage": "passage: "},
                "default_prompt_name": "passage",
                "truncate_dim": 32,
            },
        }
    )

    assert found == Description(
        Task.EMBED,
        labels=(),
        scores=Scores.SOFTMAX,
        pooling=Pooling.MAX,
        normalize=True,
        dimensions=32,
        max_tokens=64,
        strip=True,
        lower=True,
        prompt="passage: ",
        pad_id=3,
        truncation_side="left",
    )


def test_the_files_of_a_classifier():
    found = described(
        {
            "config.json": {**CLASSIFIER, "id2label": {"1": "b", "0": "a"}},
            "tokenizer_config.json": {"truncation_side": "right", "model_max_length": 128},
            # only for Sentence Transformers
            "sentence_bert_config.json": {"do_lower_case": True, "max_seq_length": 64},
            "config_sentence_transformers.json": {
                "prompts": {"query": "query: "},
                "default_prompt_name": "query",
                "truncate_dim": 32,
            },
        }
    )

    assert found == Description(
        Task.CLASSIFY,
        labels=("a", "b"),
        scores=Scores.SOFTMAX,
        pooling=Pooling.MEAN,
        normalize=False,
        dimensions=0,
        max_tokens=128,
        strip=False,
        lower=False,
        prompt="",
        pad_id=0,
        truncation_side="right",
    )


@pytest.mark.parametrize(
    ("module", "strip"),
    [
        ("sentence_transformers.models.Transformer", True),
        # from version 5.4 on
        ("sentence_transformers.base.modules.transformer.Transformer", False),
    ],
)
def test_white_space_is_removed_as_by_the_version_that_saved_the_model(module, strip):
    modules = [{**TRANSFORMER, "type": module}, POOLING]

    assert described({**EMBEDDER, "modules.json": modules}).strip is strip


@pytest.mark.parametrize("side", [{}, {"truncation_side": None}])
def test_without_a_side_the_file_of_the_tokenizer_decides_where_a_text_is_cut_off(side):
    files = {"config.json": CLASSIFIER, "tokenizer_config.json": side}

    assert described(files).truncation_side == ""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"text": {"max_length": 7}}, "processing_kwargs.text is {'max_length': 7}"),
        ({"common": {"add_special_tokens": False}}, "processing_kwargs.common is {'add_spec"),
        ({"text": [7]}, "processing_kwargs.text is [7]"),
    ],
)
def test_options_that_change_the_tokens_are_refused(options, shown):
    own = {"processing_kwargs": options}

    found = refusal({**EMBEDDER, "sentence_bert_config.json": own})

    assert found.startswith(f"sentence_bert_config.json: {shown}")
    assert found.endswith("is not supported: must have only padding and return_tensors")
    # the file means nothing without modules.json
    assert described({"config.json": CLASSIFIER, "sentence_bert_config.json": own})


@pytest.mark.parametrize(
    "options",
    [
        None,
        {},
        {"text": {"padding": True, "return_tensors": "np"}, "image": {"size": 5}},
        {"text": None},
    ],
)
def test_options_that_change_no_tokens_are_ignored(options):
    own = {"processing_kwargs": options}

    assert described({**EMBEDDER, "sentence_bert_config.json": own}) == described(EMBEDDER)


def test_without_further_files_there_is_no_limit_and_no_prompt():
    assert described({"config.json": {"architectures": ["BertModel"]}}) == Description(Task.EMBED)


@pytest.mark.parametrize(
    ("files", "option", "expected"),
    [
        ({"config.json": CLASSIFIER}, None, Task.CLASSIFY),
        ({"config.json": {"architectures": ["XLMRobertaModel", "X"]}}, None, Task.EMBED),
        ({"config.json": {}}, "embed", Task.EMBED),
        ({}, "classify", Task.CLASSIFY),
        (EMBEDDER, None, Task.EMBED),
        ({**EMBEDDER, "config.json": CLASSIFIER}, None, Task.EMBED),
        ({**EMBEDDER, "config.json": CLASSIFIER}, "classify", Task.CLASSIFY),
    ],
)
def test_the_task(files, option, expected):
    assert described(files, option).task is expected


@pytest.mark.parametrize(
    ("architectures", "shown"),
    [
        (["BertForMaskedLM"], "['BertForMaskedLM']"),
        (["X", "BertModel"], "['X', 'BertModel']"),
        ([], "[]"),
        ("BertModel", "'BertModel'"),
        ([7], "[7]"),
        (None, "None"),
        (["x" * 200], f"['{'x' * 98}"),
    ],
)
def test_a_model_of_another_task_is_refused(architectures, shown):
    assert refusal({"config.json": {"architectures": architectures}}) == (
        f"config.json: architectures is {shown}, which is neither a sequence classifier nor an "
        "encoder: set text.task in model.yaml to classify or embed"
    )


@pytest.mark.parametrize(
    ("config", "labels", "scores"),
    [
        ({}, (), Scores.SOFTMAX),
        ({"id2label": {}}, (), Scores.SOFTMAX),
        ({"num_labels": 2}, ("LABEL_0", "LABEL_1"), Scores.SOFTMAX),
        ({"num_labels": 2.0}, ("LABEL_0", "LABEL_1"), Scores.SOFTMAX),
        ({"num_labels": 1}, ("LABEL_0",), Scores.SIGMOID),
        ({"num_labels": -1}, (), Scores.SOFTMAX),
        ({"num_labels": "2"}, (), Scores.SOFTMAX),
        ({"num_labels": True}, (), Scores.SOFTMAX),
        ({"num_labels": float("inf")}, (), Scores.SOFTMAX),
        ({"num_labels": 3, "id2label": {"0": "a", "1": "b"}}, ("a", "b"), Scores.SOFTMAX),
        ({"id2label": {"0": "a"}}, ("a",), Scores.SIGMOID),
        ({"num_labels": 1, "problem_type": "regression"}, ("LABEL_0",), Scores.NONE),
        (
            {"num_labels": 2, "problem_type": "multi_label_classification"},
            ("LABEL_0", "LABEL_1"),
            Scores.SIGMOID,
        ),
        (
            {"num_labels": 2, "problem_type": "single_label_classification"},
            ("LABEL_0", "LABEL_1"),
            Scores.SOFTMAX,
        ),
    ],
)
def test_the_labels_and_scores_of_a_classifier(config, labels, scores):
    found = described({"config.json": {**CLASSIFIER, **config}})

    assert (found.labels, found.scores) == (labels, scores)


def test_as_many_labels_as_any_model_has_are_named():
    found = described({"config.json": {**CLASSIFIER, "num_labels": 100_000}})

    assert found.labels[-1] == "LABEL_99999"


@pytest.mark.parametrize("count", [100_001, 10**400, 1e300])
def test_more_labels_than_any_model_has_are_refused(count):
    assert refusal({"config.json": {**CLASSIFIER, "num_labels": count}}) == (
        f"config.json: num_labels is {count!r:.40}: must be 100000 or less without id2label"
    )


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ({"1": "a"}, "{'1': 'a'}"),
        ({"0": "a", "2": "b"}, "{'0': 'a', '2': 'b'}"),
        ({"0": 7}, "{'0': 7}"),
        (["a", "b"], "['a', 'b']"),
        ("x" * 200, f"'{'x' * 99}"),
    ],
)
def test_labels_that_do_not_have_all_numbers_are_refused(found, shown):
    assert refusal({"config.json": {**CLASSIFIER, "id2label": found}}) == (
        f"config.json: id2label is {shown}: must have a label for each number from 0"
    )


@pytest.mark.parametrize(
    ("modules", "shown"),
    [
        ({}, "{}"),
        ("x" * 200, f"'{'x' * 99}"),
        ([TRANSFORMER, 7], "7"),
        ([{"type": "Transformer"}], "{'type': 'Transformer'}"),
        ([{"path": ""}], "{'path': ''}"),
    ],
)
def test_a_module_without_type_and_path_is_refused(modules, shown):
    assert refusal({"modules.json": modules}) == (
        f"modules.json: {shown} is invalid: must have type and path"
    )


def test_a_module_of_the_models_own_code_is_refused():
    modules = [{"type": "custom_st.Transformer", "path": ""}, POOLING]

    assert refusal({"modules.json": modules}) == (
        "modules.json: type is 'custom_st.Transformer', a class of the model's own code, which "
        "does not run here: must be a class of sentence_transformers"
    )


@pytest.mark.parametrize(
    ("modules", "shown"),
    [
        ([TRANSFORMER], "Transformer"),
        ([TRANSFORMER, NORMALIZE, POOLING], "Transformer, Normalize, Pooling"),
        (
            [TRANSFORMER, POOLING, {"type": "sentence_transformers.b.Dense", "path": "x"}],
            "Transformer, Pooling, Dense",
        ),
    ],
)
def test_other_modules_are_refused(modules, shown):
    assert refusal({"modules.json": modules}) == (
        f"modules.json: the modules {shown} are not supported: must be Transformer, Pooling and "
        "optionally Normalize"
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_mean_tokens": True}, Pooling.MEAN),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling.CLS),
        ({"pooling_mode_max_tokens": True, "word_embedding_dimension": True}, Pooling.MAX),
        ({"pooling_mode": "mean"}, Pooling.MEAN),
        ({"pooling_mode": "cls"}, Pooling.CLS),
        ({"pooling_mode": "max_tokens"}, Pooling.MAX),
        ({"pooling_mode": "cls", "pooling_mode_mean_tokens": True}, Pooling.CLS),
    ],
)
def test_the_pooling(config, expected):
    assert described({**EMBEDDER, "1_Pooling/config.json": config}).pooling is expected


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({}, "none"),
        ({"pooling_mode_cls_token": 1}, "none"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode_lasttoken": True}, "lasttoken"),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
            "cls_token and max_tokens",
        ),
    ],
)
def test_another_pooling_is_refused(config, shown):
    assert refusal({**EMBEDDER, "1_Pooling/config.json": config}) == (
        f"1_Pooling/config.json: the pooling {shown} is not supported: must be one of "
        "mean_tokens, cls_token, max_tokens"
    )


def test_a_prompt_needs_no_modules():
    found = described(
        {
            "config.json": {"architectures": ["BertModel"]},
            "config_sentence_transformers.json": {
                "prompts": {"query": "query: "},
                "default_prompt_name": "query",
            },
        }
    )

    assert (found.prompt, found.pooling) == ("query: ", Pooling.MEAN)


@pytest.mark.parametrize("prompts", [None, {}, {"query": 7}, ["query"], {"passage": "passage: "}])
def test_a_prompt_that_does_not_exist_is_refused(prompts):
    written = {"default_prompt_name": "query", "prompts": prompts}

    assert refusal({**EMBEDDER, "config_sentence_transformers.json": written}) == (
        "config_sentence_transformers.json: default_prompt_name is 'query': no such prompt"
    )


@pytest.mark.parametrize("name", [7, ["query"], {}])
def test_the_name_of_a_prompt_must_be_text(name):
    written = {"default_prompt_name": name, "prompts": {"query": "query: "}}

    assert refusal({**EMBEDDER, "config_sentence_transformers.json": written}) == (
        f"config_sentence_transformers.json: default_prompt_name is {name!r}: no such prompt"
    )


@pytest.mark.parametrize(("name", "is_refused"), [("query", True), ("empty", False)])
def test_a_pooling_without_the_tokens_of_the_prompt_is_refused(name, is_refused):
    files = {
        **EMBEDDER,
        "1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": False},
        "config_sentence_transformers.json": {
            "default_prompt_name": name,
            "prompts": {"query": "query: ", "empty": ""},
        },
    }

    if is_refused:
        assert refusal(files) == (
            "the pooling of the model leaves out its prompt (include_prompt is false), which is "
            "not supported"
        )
    else:
        assert described(files).prompt == ""


@pytest.mark.parametrize(
    ("config", "tokenizer", "own", "option", "expected"),
    [
        (BERT, {"model_max_length": 128}, {"max_seq_length": 64}, 8, 8),
        (BERT, {"model_max_length": 128}, {"max_seq_length": 64}, 0, 64),
        (BERT, {"model_max_length": 128}, {}, None, 128),
        (BERT, {"model_max_length": 2048}, {"max_seq_length": 1024}, None, 1024),
        (BERT, {"model_max_length": 2048}, {}, None, 512),
        (ROBERTA, {"model_max_length": 514}, {}, None, 512),
        (BERT, {}, {}, None, 512),
        ({}, {"model_max_length": 999_999}, {}, None, 999_999),
        ({}, {"model_max_length": 1_000_000}, {}, None, 0),
        (BERT, {"model_max_length": 1e30}, {}, None, 512),
        (BERT, {}, {"max_seq_length": None}, None, 512),
        (BERT, {}, {"max_seq_length": 1}, None, 1),
        (BERT, {"model_max_length": 1}, {}, None, 1),
        ({}, {}, {"max_seq_length": 1_000_000}, None, 0),
        ({**ROBERTA, "model_type": "bert"}, {}, {}, None, 514),
        (ROBERTA, {}, {}, None, 512),
        ({**ROBERTA, "model_type": "mpnet", "pad_token_id": 0}, {}, {}, None, 513),
        ({"model_type": "roberta"}, {}, {}, None, 0),
        ({**ROBERTA, "model_type": ["roberta"]}, {}, {}, None, 514),
    ],
)
def test_the_limit_of_tokens(config, tokenizer, own, option, expected):
    files = {
        **EMBEDDER,
        "config.json": config,
        "tokenizer_config.json": tokenizer,
        "sentence_bert_config.json": own,
    }

    assert described(files, None, option).max_tokens == expected


def test_only_sentence_transformers_caps_the_limit_of_the_tokenizer():
    """Transformers does not: relative positions may be more than the configuration says."""
    tokenizer = {"model_max_length": 2048}
    files = {"config.json": {**CLASSIFIER, **BERT}, "tokenizer_config.json": tokenizer}

    assert described(files).max_tokens == 2048


@pytest.mark.parametrize(
    "file",
    [
        "config.json",
        "tokenizer_config.json",
        "config_sentence_transformers.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
    ],
)
def test_a_file_that_is_no_object_is_refused(file):
    content = ["x" * 100]

    assert refusal({**EMBEDDER, file: content}) == (
        f"{file}: ['{'x' * 58} is invalid: must be a JSON object"
    )


LOGITS = np.array([[0.0, 0.5, -1.0], [1000.0, 0.0, -1000.0]], np.float32)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (Scores.NONE, LOGITS),
        (Scores.SIGMOID, [[0.5, 0.622459, 0.268941], [1, 0.5, 0]]),
        (Scores.SOFTMAX, [[0.331499, 0.546549, 0.121952], [1, 0, 0]]),
    ],
)
def test_scores_of_small_and_large_logits(scores, expected):
    with np.errstate(over="raise", invalid="raise"):
        found = scored(LOGITS, scores)

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (Pooling.CLS, [[1, 8], [5, 0]]),
        (Pooling.MEAN, [[2, 5], [5, 3]]),
        (Pooling.MAX, [[3, 8], [5, 6]]),
    ],
)
def test_padding_does_not_affect_an_embedding(pooling, expected):
    tokens = np.array([[[1, 8], [3, 2], [99, 99]], [[5, 0], [5, 6], [99, 99]]], np.float32)

    found = pooled(tokens, 2, pooling)

    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_the_mean_of_half_precision_numbers_does_not_overflow():
    tokens = np.full((1, 2, 1), 60_000, np.float16)

    found = pooled(tokens, 2, Pooling.MEAN)

    assert (found.dtype, found.item()) == (np.float32, 60_000)


def test_embeddings_have_the_length_1_and_zero_stays_zero():
    found = normalized(np.array([[3, 4], [0, 0], [-1e-6, 0]], np.float32))

    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [-1, 0]], atol=1e-6)
