"""The text around a conversion: documents, markers and comments, and the YAML that is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.manifests.convert.texts import convert_text, joined
from moorage_cli.manifests.documents import DocumentError, dump, read_documents

EARLIER = """\
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata: {name: iris}
spec:
  model: {uri: "pvc://models/iris", version: "3"}
  disruptionBudget: None
"""
PRESENT = """\
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata: {name: iris}
spec:
  model: {uri: 'pvc://models/iris', version: '3'}
  disruptionBudget: {policy: None}
"""
OTHER = "kind:   ConfigMap   # beside the model\ndata: {a: 'b'}\n"
INDENTED = "".join(f"  {line}\n" for line in EARLIER.splitlines())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EARLIER, PRESENT),
        (f"---\n{EARLIER}", f"---\n{PRESENT}"),
        (f"{OTHER}---\n{EARLIER}", f"{OTHER}---\n{PRESENT}"),
        (f"{EARLIER}---\n{OTHER}", f"{PRESENT}---\n{OTHER}"),
        (f"{EARLIER}---\n{OTHER}---\n{EARLIER}", f"{PRESENT}---\n{OTHER}---\n{PRESENT}"),
        (f"---\n# Source: a.yaml\n{EARLIER}", f"---\n# Source: a.yaml\n{PRESENT}"),
        (f"# first\n\n{EARLIER}", f"# first\n\n{PRESENT}"),
        (f"--- # first\n{EARLIER}", f"---\n # first\n{PRESENT}"),
        (f"---\n{INDENTED}", f"---\n{PRESENT}"),
        (f"---\n\n---\n{EARLIER}", f"---\n\n---\n{PRESENT}"),
        (f"{EARLIER}...\n---\n{OTHER}...\n", f"{PRESENT}...\n---\n{OTHER}...\n"),
        (EARLIER.rstrip("\n"), PRESENT),
        (OTHER, OTHER),
        ("", ""),
        ("# nothing\n", "# nothing\n"),
    ],
)
def test_only_the_document_with_moved_fields_changes(before, after):
    converted = convert_text(before)

    assert converted.text == after
    assert converted.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        EARLIER.replace("None", "None  # of our own"),
        EARLIER.replace("spec:", "# the model\nspec:"),
        f"{EARLIER}# the end\n",
        f"{EARLIER}# the next one\n---\n{OTHER}",
    ],
)
def test_a_comment_that_is_lost_is_noted(text):
    (note,) = convert_text(text).notes

    assert "iris" in note
    assert "comments" in note


@pytest.mark.parametrize("text", [EARLIER.replace("iris}", "'a # b'}"), f"{EARLIER}  x: 'a#b'\n"])
def test_a_hash_in_a_text_is_no_comment(text):
    assert convert_text(text).notes == ()


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n", "a: !!binary aGk=\n", "a: &a [*a]\n"])
def test_invalid_yaml_is_refused(text):
    with pytest.raises(DocumentError):
        convert_text(f"{EARLIER}---\n{text}")


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (["a: 1\n", "b: 2\n"], "a: 1\n---\nb: 2\n"),
        (["a: 1", "---\nb: 2\n"], "a: 1\n---\nb: 2\n"),
        (["---\na: 1\n"], "---\na: 1\n"),
        (["", "b: 2\n"], "b: 2\n"),
    ],
)
def test_several_files_are_printed_as_one_stream(texts, whole):
    assert joined(texts) == whole


def test_texts_of_several_lines_stay_readable():
    assert dump({"args": ["a\nb\n"]}) == "args:\n  - |\n    a\n    b\n"


# Texts that are other values without quotes, or that a careless writer breaks.
ODD_TEXTS = [
    "3", "on", "no", "null", "~", "2026-03-04", "2026-03-04T05:06:07Z", "1e3", "0x1f", "1:30",
    "=", "<<", "a: b", "- a", "# a", "|", "a\n\n b\n", " a", "a ", "\n", "\ufeffa", "\u2028",
    "\x85", "a\r\nb", "a\n\x85b",
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(ODD_TEXTS)
)
keys = st.text("ab #:-\n'\"1", max_size=5) | st.sampled_from(ODD_TEXTS)
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(keys, below, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_written_reads_as_the_same_value(value):
    (document,) = read_documents(dump(value))

    assert document.value == value
