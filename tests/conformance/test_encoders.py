"""An encoder as on the Hugging Face Hub, served over HTTP from a folder without a model.yaml."""

import json

import pytest

from support.encoders import HIDDEN, SENTENCES, write_encoder
from support.runtime import serving

pytest.importorskip("tokenizers", reason="the extra 'text' is not installed")
pytestmark = [pytest.mark.conformance, pytest.mark.timeout(120)]


def test_encoders_answer_and_can_be_served_as_plain_graphs(tmp_path):
    root = tmp_path / "models"
    write_encoder(root / "sentiment", "logits", graph="onnx/model.onnx")
    write_encoder(root / "embedder", graph="onnx/model_quantized.onnx")
    write_encoder(root / "graph")
    (root / "graph" / "model.yaml").write_text("backend: onnx\n")
    text = {"name": "text", "datatype": "BYTES", "shape": [2], "data": list(SENTENCES[:2])}

    with serving(root, "--ready-when=all") as runtime:
        labels, scores = runtime.post(
            "/v2/models/sentiment/infer", content=json.dumps({"inputs": [text]})
        ).json()["outputs"]
        (embedding,) = runtime.post(
            "/v2/models/embedder/infer", content=json.dumps({"inputs": [text]})
        ).json()["outputs"]
        sentiment = runtime.get("/v2/models/sentiment").json()
        graph = runtime.get("/v2/models/graph").json()

    assert (labels["shape"], scores["shape"]) == ([2, 3], [2, 3])
    assert set(labels["data"]) == {"bad", "good", "so so"}
    assert sum(scores["data"]) == pytest.approx(2, abs=1e-5)
    assert embedding["shape"] == [2, HIDDEN]
    assert sentiment["platform"] == "huggingface_onnx"
    assert graph["platform"] == "onnx_onnxv1"
    assert graph["inputs"][0]["name"] == "input_ids"
