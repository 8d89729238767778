"""The text around a conversion: documents, markers and comments, and the YAML that is written."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.manifests.convert.conversion import ConversionError
from moorage_cli.manifests.convert.texts import Hints, convert_text, joined
from moorage_cli.manifests.documents import DocumentError, dump, read_documents
from support.foreign_manifests import CONFIG_PBTXT, FOREIGN, MODEL, MODEL_SETTINGS, kserve, seldon

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
    ],
)
def test_only_the_document_with_moved_fields_changes(before, after):
    converted = convert_text(before)

    assert converted.text == after
    assert converted.notes == ()


@pytest.mark.parametrize("text", ["# a comment\n", "---\n---\n", "---\n# Source: empty.yaml\n"])
def test_a_text_without_resources_is_named(text):
    converted = convert_text(text)

    assert converted.text == text
    assert converted.notes[0].startswith(
        "nothing to convert: the text contains no resource: supported are"
    )


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


FOREIGN_KINDS = {"Model", "InferenceService", "ServingRuntime", "ClusterServingRuntime"}


def test_the_content_tells_the_format_of_each_document():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

    made = convert_text(yaml.safe_dump_all([other, *FOREIGN]))

    kinds = [document["kind"] for document in yaml.safe_load_all(made.text)]
    assert kinds[0] == "ConfigMap"
    assert set(kinds[1:]) == {"InferenceModel", "InferenceRuntime"}
    assert {each["kind"] for each in FOREIGN} == FOREIGN_KINDS
    assert made.has_losses
    assert not made.is_settings


def test_the_items_of_a_list_are_converted_and_named_in_the_report():
    listed = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceServiceList",
        "items": [kserve({"model": MODEL, "timeout": 3})],
    }

    made = convert_text(json.dumps(listed))

    whole = yaml.safe_load(made.text)
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    assert whole["items"][0]["kind"] == "InferenceModel"
    (lost,) = (note for note in made.notes if "lost" in note)
    assert lost.startswith("iris: spec.predictor.timeout: 3: lost: ")


def test_an_item_that_cannot_be_converted_is_named():
    listed = {"kind": "List", "items": [seldon(), kserve({})]}

    with pytest.raises(ConversionError, match=r"document 1: iris: spec\.predictor has no server"):
        convert_text(yaml.safe_dump(listed))


@pytest.mark.parametrize(
    ("version", "kind"),
    [("serving.kserve.io/v1alpha1", "InferenceGraph"), ("mlops.seldon.io/v1alpha1", "Pipeline")],
)
def test_another_kind_of_these_projects_stays_and_is_reported(version, kind):
    text = yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})

    made = convert_text(text)

    assert made.text == text
    assert made.has_losses
    assert made.notes == (
        f'a: kind: "{kind} of {version}": lost: has no conversion: the document stays as it is',
    )


@pytest.mark.parametrize("text", [CONFIG_PBTXT, json.dumps(MODEL_SETTINGS)])
def test_settings_of_a_server_become_a_model_at_the_given_location(text):
    made = convert_text(text, Hints("folder", "s3://models/iris"))

    assert yaml.safe_load(made.text)["spec"]["model"]["uri"] == "s3://models/iris"
    assert made.is_settings
    assert not made.has_losses


@pytest.mark.parametrize(
    "text", ["name: x\nbackend:\n  - y\n  - z\n", '{"implementation": 3}', '{"a": 1}']
)
def test_text_that_only_resembles_settings_is_refused_with_the_supported_formats(text):
    with pytest.raises(ConversionError, match=r"has no kind: supported are .*config\.pbtxt"):
        convert_text(text)


def test_a_configuration_with_a_mistake_is_refused_with_its_line():
    with pytest.raises(DocumentError, match=r"line 2: .*, so it is not a config\.pbtxt"):
        convert_text('backend: "x"\ninput { name: }')


def test_lost_comments_are_no_lost_fields():
    made = convert_text(f"{yaml.safe_dump(kserve({'model': MODEL}))}# the end\n")

    assert any("comments" in note for note in made.notes)
    assert not made.has_losses


@pytest.mark.parametrize("text", ["y", "N", "1e3", "0o17", "0b1", "1_0", "-.5E1", "12", "1."])
def test_text_that_kubectl_would_read_as_another_value_has_quotes(text):
    assert dump({"a": text, text: "b"}) == f"{{a: '{text}', '{text}': b}}\n"


@pytest.mark.parametrize("text", ["100Ki", "500m", "v1", "yes-sir", "1.2.3"])
def test_other_text_has_no_quotes(text):
    assert dump([text]) == f"[{text}]\n"


def test_a_text_that_is_no_resource_is_refused() -> None:
    with pytest.raises(ConversionError, match="document 1: is plain text: must be a resource"):
        convert_text("import pickle\nmodel = pickle.load(file)\n")
