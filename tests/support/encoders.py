"""Tiny encoders in the layout of the Hugging Face Hub: a tokenizer and a random graph."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["HIDDEN", "SENTENCES", "write_encoder"]

SENTENCES = (
    "the service answers quickly and the model is good",
    "a bad answer is worse than no answer at all",
    "good models serve good answers",
    "the queue is full, so the request waits",
)
HIDDEN = 6
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
LABELS = ("bad", "good", "so so")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_encoder(
    folder: Path,
    output: str = "last_hidden_state",
    *,
    graph: str = "model.onnx",
    inputs: Sequence[str] = INPUTS,
    texts: int | str = "batch",
    tokens: int | str = "sequence",
    kind: int = TensorProto.INT64,
    **documents: Any,
) -> Path:
    """An encoder; returns the path of its graph.

    Args:
        folder: Where its files are written.
        output: logits, last_hidden_state or sentence_embedding.
        graph: Path of the graph within the folder.
        inputs: Inputs of the graph.
        texts: Size of the first dimension, or a name for a variable one.
        tokens: Size of the second dimension.
        kind: Type of the inputs.
        documents: Further JSON files: their names without .json, with "__" for "/".
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = _write_tokenizer(folder / "tokenizer.json")
    kinds = {"logits": "BertForSequenceClassification"}
    config: dict[str, Any] = {"architectures": [kinds.get(output, "BertModel")], "pad_token_id": 0}
    if output == "logits":
        config["id2label"] = {str(index): label for index, label in enumerate(LABELS)}
    documents = {"config": config} | documents
    for name, document in documents.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document))
    path = folder / graph
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_graph(output, size, inputs, (texts, tokens), kind), path)
    return path


def _write_tokenizer(file: Path) -> int:
    """A tokenizer with BERT's special tokens; returns the size of its vocabulary.

    Its words are those of the sentences: training would break ties at random.
    """
    # an extra that not every environment has
    from tokenizers import (  # noqa: PLC0415
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    letters = sorted(set("".join(SENTENCES)) - {" "})
    words = sorted({word.strip(",") for text in SENTENCES for word in text.split()})
    tokens = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # as in published repositories; the caller decides
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=16)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(file))
    return tokenizer.get_vocab_size()


def _graph(
    output: str,
    size: int,
    inputs: Sequence[str],
    dims: tuple[int | str, int | str],
    kind: int,
) -> onnx.ModelProto:
    """Embeddings of tokens; those of a text are the mean of its tokens by the mask."""
    random = np.random.default_rng(7)
    weights: Mapping[str, Any] = {
        "table": random.normal(size=(size, HIDDEN)).astype(np.float32),
        "types": random.normal(size=(2, HIDDEN)).astype(np.float32),
        "head": random.normal(size=(HIDDEN, len(LABELS))).astype(np.float32),
        "last": np.array([2], np.int64),
        "second": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Gather", ["types", "token_type_ids"], ["kinds"])
        if "token_type_ids" in inputs
        else helper.make_node("Identity", ["words"], ["kinds"]),
        helper.make_node("Add", ["words", "kinds"], ["sums"]),
        helper.make_node("Tanh", ["sums"], ["last_hidden_state"]),
    ]
    batch, count = dims
    shape: tuple[int | str, ...] = (batch, count, HIDDEN)
    if output != "last_hidden_state":
        mask = "attention_mask" if "attention_mask" in inputs else "input_ids"
        nodes += [
            helper.make_node("Cast", [mask], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Sign", ["floats"], ["ones"]),
            helper.make_node("Unsqueeze", ["ones", "last"], ["weights"]),
            helper.make_node("Mul", ["last_hidden_state", "weights"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "second"], ["total"], keepdims=0),
            helper.make_node("ReduceSum", ["ones", "second"], ["count"], keepdims=1),
            helper.make_node("Div", ["total", "count"], ["sentence_embedding"]),
            helper.make_node("MatMul", ["sentence_embedding", "head"], ["logits"]),
        ]
        shape = (batch, len(LABELS) if output == "logits" else HIDDEN)
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, kind, dims) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model
