"""The stored data of a revision: the hash of its spec, and the spec in its ReplicaSet."""

import base64
import zlib
from dataclasses import replace
from typing import Any

from moorage_operator.decide.rollout.revision_specs import read_spec
from support.operator_values import model, record


def labelled(**labels: str) -> str:
    return model(podTemplate={"metadata": {"labels": labels}}).written.hash


def given(*args: str) -> str:
    return model(runtime={"image": "other:1", "args": list(args)}).written.hash


def test_keys_values_and_items_of_the_spec_change_its_hash() -> None:
    assert len({labelled(a="1"), labelled(b="1"), labelled(a="2")}) == 3
    assert len({given("--a"), given("--b"), given("--a", "--b")}) == 3


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
