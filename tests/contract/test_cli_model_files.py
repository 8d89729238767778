"""The tool and the runtime find the same models in a file or folder."""

import pytest

from moorage_cli.manifests import model_files
from moorage_runtime.repository import listing
from moorage_runtime.repository.contents import layout

FOLDERS = [
    [],
    ["readme.md"],
    ["model.onnx"],
    ["iris.onnx", "notes.txt"],
    ["a.onnx", "b.onnx"],
    ["a.onnx", "model.onnx"],
    ["model.py", "weights.joblib"],
    ["model.py", "model.onnx"],
    ["saved_model.pb", "fingerprint.pb", "variables/variables.index"],
    ["model.json"],
    ["model.txt", "model.ubj"],
    ["model.json", "model.txt"],
    ["other.json"],
    ["MLmodel", "model.pkl", "model.onnx"],
    ["config.json", "tokenizer.json", "model.onnx"],
    ["config.json", "tokenizer.json", "onnx/model.onnx"],
    ["config.json", "tokenizer.json", "onnx/model.onnx", "model.py"],
    ["config.json", "tokenizer.json", "onnx/model_quantized.onnx"],
    ["config.json", "tokenizer.json", "model_quantized.onnx"],
    ["config.json", "tokenizer.json", "model_q4.onnx", "onnx/model.onnx"],
    ["config.json", "tokenizer.json", "onnx/model_q4.onnx", "onnx/model_fp16.onnx"],
    ["config.json", "tokenizer.json", "model.safetensors"],
    ["1/model.onnx", "2/model.onnx"],
    ["2/model.cbm", "10/model.skops"],
    ["1/model.onnx", "assets/labels.txt"],
    ["digits/1/model.onnx", "iris/model.skops", "notes/readme.md"],
    ["digits/v1/model.onnx", "iris/model.pt", "iris/model.yaml"],
    ["digits/1/a.onnx", "digits/1/b.onnx"],
    ["model.yaml"],
    [".hidden/model.onnx", "lost+found/model.onnx"],
    ["__pycache__/model.py", "model.onnx"],
    ["x.xml", "x.bin"],
]
FILES = [
    *(f"a{suffix}" for suffix in layout._SUFFIXES),
    *layout._FIXED_NAMES,
    *layout._WEAK_NAMES,
    "a.json", "a.txt", "MLmodel", "a.md", "onnx", "a.b.onnx",
]  # fmt: skip


def shown(model: layout.ModelLayout) -> tuple[str, str, str]:
    last = model.versions[-1]
    file = "/".join(part for part in (model.folder, last.folder, last.file) if part)
    return model.name, last.format, file if last.file else ""


@pytest.mark.parametrize("files", FOLDERS, ids=" ".join)
@pytest.mark.parametrize("name", ["", "given"])
def test_a_folder_holds_the_same_models(tmp_path, files, name):
    root = tmp_path / "root"
    root.mkdir()
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"")

    found = model_files.find_in_folder(files, name or "root", single=bool(name))
    expected = listing.read(root, name or None).models

    if not expected:  # the runtime starts without models, and the tool refuses that
        assert all(each.problem for each in found)
    else:
        assert [(each.name, each.format, each.file) for each in found] == list(
            map(shown, expected)
        )
        assert [bool(each.problem) for each in found] == [
            bool(each.problem or each.versions[-1].problem) for each in expected
        ]


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_the_same_model(file):
    found = model_files.find_of_file(file)
    expected = layout.single_file(file, None)

    assert (found.name, found.format, found.file) == shown(expected)
    assert bool(found.problem) == bool(expected.versions[0].problem)


def test_the_message_lists_what_the_runtime_expects():
    assert model_files.EXPECTED == layout.EXPECTED
