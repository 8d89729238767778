"""The stored data of a revision: the hash of its spec, and the spec in its ReplicaSet."""

import base64
import bisect
import random
import zlib
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.written_spec import (
    PLAIN_LIMIT_BYTES,
    SPEC_LIMIT_BYTES,
    UnreadableSpec,
    read_kept,
    version_of,
    write_spec,
)
from moorage_operator.decide.rollout.revision_specs import (
    exact,
    read_spec,
    read_template,
    unreadable,
)
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.observed import RevisionRecord
from support.operator_values import CONFIG, model, record, revision


def labelled(**labels: str) -> str:
    return model(podTemplate={"metadata": {"labels": labels}}).written.hash


def given(*args: str) -> str:
    return model(runtime={"image": "other:1", "args": list(args)}).written.hash


def test_keys_values_and_items_of_the_spec_change_its_hash() -> None:
    assert len({labelled(a="1"), labelled(b="1"), labelled(a="2")}) == 3
    assert len({given("--a"), given("--b"), given("--a", "--b")}) == 3


def test_the_order_of_fields_changes_nothing() -> None:
    fields = {"args": ["--a"], "image": "other:1"}
    reordered = dict(reversed(fields.items()))

    assert write_spec("uid", {"runtime": fields}) == write_spec("uid", {"runtime": reordered})


def test_texts_are_kept_as_they_are_and_broken_characters_are_replaced() -> None:
    assert write_spec("uid", {"a": "é"}).kept == '{"spec":{"a":"é"},"version":1}'
    assert write_spec("uid", {"a": "\ud800"}).kept == '{"spec":{"a":"?"},"version":1}'


def kept_of(size: int) -> str:
    """The kept text of a spec whose JSON has a size."""
    around = len(write_spec("uid", {"a": ""}).kept)
    return write_spec("uid", {"a": "x" * (size - around)}).kept


def test_only_a_spec_that_exceeds_the_limit_of_plain_text_is_compressed() -> None:
    assert len(kept_of(PLAIN_LIMIT_BYTES)) == PLAIN_LIMIT_BYTES
    assert not kept_of(PLAIN_LIMIT_BYTES + 1).startswith("{")


def test_the_longest_text_that_is_kept_has_the_size_of_the_limit() -> None:
    noise = random.Random(0).randbytes(SPEC_LIMIT_BYTES).hex()

    def is_too_long(size: int) -> bool:
        return not write_spec("uid", {"a": noise[:size]}).kept

    longest = bisect.bisect_left(range(len(noise)), x=True, key=is_too_long) - 1

    assert len(write_spec("uid", {"a": noise[:longest]}).kept) == SPEC_LIMIT_BYTES


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "was not kept"),
        (b"{", "was kept in a text that is damaged"),
        (b'{"spec":[],"version":1}', "was kept in a text that is damaged"),
        # JSON other than an object, compressed.
        (base64.b64encode(zlib.compress(b"[]")), "was kept in format None, which .* format 1"),
        # More than the limit once it is decompressed.
        (
            base64.b64encode(zlib.compress(b'{"spec":{},"version":1}' + b" " * (5 << 20))),
            "was kept in a text that is damaged",
        ),
        (b'{"spec":{},"version":2}', "was kept in format 2, which .* it knows format 1"),
    ],
)
def test_the_reason_why_a_spec_is_unreadable(text: bytes, why: str) -> None:
    with pytest.raises(UnreadableSpec, match=f"^{why}$"):
        read_kept(text)


@pytest.mark.parametrize(
    ("spec_hash", "version"), [("v1:4c1f", "v1"), ("v2:4c:1f", "v2"), ("4c1f", ""), ("", "")]
)
def test_a_hash_begins_with_its_format(spec_hash: str, version: str) -> None:
    assert version_of(spec_hash) == version


def test_a_truncated_compressed_spec_is_not_read() -> None:
    of = model(runtime={"image": "other:1"})
    squeezed = zlib.compress(of.written.kept.encode())

    def kept(spec: bytes) -> Any:
        return read_spec(replace(record(of), spec=spec), of)

    assert kept(base64.b64encode(squeezed)) == of
    assert kept(b"#" + base64.b64encode(squeezed)) is None
    # Without the checksum at its end the stream has all of the text and no end.
    assert kept(base64.b64encode(squeezed[:-4])) is None


def test_an_edit_of_the_route_is_no_new_revision() -> None:
    web, other = ({"parentRefs": [{"name": name}]} for name in ("web", "other"))

    assert model(route=web).written == model(route=other).written == model().written
    assert model(rollout={"onFailure": "Pause"}).written.hash != model().written.hash


def test_an_earlier_revision_has_the_present_route() -> None:
    route = {"parentRefs": [{"name": "web"}], "hostnames": ["iris.example.com"]}
    before, now = model(runtime={"image": "old:1"}), model(route=route)

    then = read_spec(record(before), now)

    assert then is not None
    assert then.runtime.image == "old:1"
    assert then.route == now.route


def test_it_is_said_why_a_revision_cannot_be_read() -> None:
    of = model()
    wrong = b'{"spec":{"replicas":-1,"protocol":"x"},"version":1}'

    invalid = unreadable(replace(record(of), spec=wrong), of)

    assert unreadable(record(of), of) == ""
    assert unreadable(None, of) == "was not kept"
    assert invalid.startswith("is invalid for this version of the operator: spec.")
    assert "; spec." in invalid


def edited(of: RevisionRecord) -> RevisionRecord:
    """The record in the ReplicaSet of a Deployment whose image was edited by hand."""
    return replace(of, template=of.template.replace(b"good:1", b"edited:1"))


GOOD = model(runtime={"image": "good:1"})
LATER = model(generation=2, runtime={"image": "new:1"}, replicas=3, suspend=True)


def test_the_template_of_an_edited_deployment_is_not_that_of_its_revision() -> None:
    found = edited(record(GOOD))

    restored = exact(found, revision(GOOD), LATER, CONFIG)

    assert found != record(GOOD)
    assert restored.spec == found.spec
    assert read_template(restored, GOOD) == make_pod_template(GOOD, CONFIG)


@pytest.mark.parametrize(
    ("found", "of"),
    [
        (edited(record(GOOD)), "of another version of the operator"),
        (replace(edited(record(GOOD)), spec=b"unreadable"), revision(GOOD)),
    ],
)
def test_a_template_that_cannot_be_rendered_is_taken_as_it_is(
    found: RevisionRecord, of: str
) -> None:
    assert exact(found, of, LATER, CONFIG) is found
