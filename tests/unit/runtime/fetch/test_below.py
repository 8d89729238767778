"""The names of a store that belong to a path."""

import pytest

from moorage_runtime.fetch.decide.below import below

NAMES = ("a/b.onnx", "a/c/d", "ab/e", "f", "a.b", "g", "g/h", "X/i")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", {name: name for name in NAMES}),
        ("a", {"a/b.onnx": "b.onnx", "a/c/d": "c/d"}),
        ("a/", {"a/b.onnx": "b.onnx", "a/c/d": "c/d"}),
        ("a/c", {"a/c/d": "d"}),
        ("a/b.onnx", {"a/b.onnx": "b.onnx"}),
        ("f", {"f": "f"}),
        ("f/", {}),
        ("X", {"X/i": "i"}),
        ("g", {"g/h": "h"}),
        ("e", {}),
        ("b.onnx", {}),
    ],
)
def test_a_path_selects_a_file_or_all_below_a_folder(path, expected):
    assert dict(below(iter(NAMES), path)) == expected
