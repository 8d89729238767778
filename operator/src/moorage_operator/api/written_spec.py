"""A spec as text in the names of the API, with the version of its format; pure.

    parse --> Fields.written --> write_spec --> hash:  status.revisions.specHash
                                            --> kept:  annotation of the Deployment --> read_kept

Both outlive an operator. They contain the names of the API and never those of the code, so that
renaming a Python field starts no rollout. Values that equal the default of the API are left out,
so that a field that a newer CRD adds with a default starts none either. The format must not change
within a version; `tests/stored` pins its bytes.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = [
    "NOTHING_WRITTEN",
    "SPEC_LIMIT_BYTES",
    "UnreadableSpec",
    "WrittenSpec",
    "read_kept",
    "version_of",
    "write_spec",
]

VERSION = 1
HASH_LENGTH = 10

# Fields that start no rollout.
WITHOUT_ROLLOUT = frozenset(
    {
        "replicas", "suspend", "paused", "scaling", "disruptionBudget", "networkPolicy", "route",
        "objectMetadata",
    }
)  # fmt: skip
# Fields of `rollout` that start no rollout: they decide about one that has started.
VERBS = frozenset({"promote", "abort"})
# Fields that are not kept with a revision: an earlier revision runs with the current ones.
NOT_KEPT = WITHOUT_ROLLOUT | {"rollout"}

# The annotations of an object may total 256 KiB, and other tools add theirs.
SPEC_LIMIT_BYTES = 128 << 10
# Shorter specs are stored uncompressed so that people can read them.
PLAIN_LIMIT_BYTES = 16 << 10
# More than any spec: the API server rejects objects of more than 1.5 MiB.
INFLATED_LIMIT_BYTES = 4 << 20


class UnreadableSpec(Exception):
    """A kept spec that cannot be read; the text says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class WrittenSpec:
    """The two texts of a spec.

    Attributes:
        hash: Identifies the object and what a rollout depends on: `v1:4c1f0a9d2e`.
        kept: The spec of a revision as JSON, compressed if it is long; empty if it is too large.
    """

    hash: str = ""
    kept: str = ""


NOTHING_WRITTEN = WrittenSpec()


def write_spec(uid: str, written: Mapping[str, Any]) -> WrittenSpec:
    """Write a valid spec.

    The kept text is part of each watch event of the Deployment and its ReplicaSets, so long JSON,
    which mostly consists of the numbers of smoke tests, is compressed.

    Args:
        uid: The uid of the object.
        written: The spec in the names of the API, without defaults.
    """
    rolled_out = {name: part for name, part in written.items() if name not in WITHOUT_ROLLOUT}
    rollout = cast("Mapping[str, Any]", written.get("rollout") or {})
    rolled_out["rollout"] = {name: part for name, part in rollout.items() if name not in VERBS}
    if not rolled_out["rollout"]:
        del rolled_out["rollout"]
    digest = hashlib.sha256(_canonical([uid, rolled_out])).hexdigest()[:HASH_LENGTH]
    kept = {name: part for name, part in written.items() if name not in NOT_KEPT}
    text = _canonical({"version": VERSION, "spec": kept})
    if len(text) > PLAIN_LIMIT_BYTES:
        text = base64.b64encode(zlib.compress(text, level=9))
    is_small = len(text) <= SPEC_LIMIT_BYTES
    return WrittenSpec(f"v{VERSION}:{digest}", text.decode() if is_small else "")


def read_kept(text: bytes) -> Mapping[str, Any]:
    """Read the spec of a revision, in the names of the API and without defaults.

    Raises:
        UnreadableSpec: It was not kept, is damaged, or has another format.
    """
    if not text:
        raise UnreadableSpec("was not kept")
    try:
        found: object = json.loads(_uncompressed(text))
    except (ValueError, RecursionError, zlib.error) as error:
        raise UnreadableSpec("was kept in a text that is damaged") from error
    document = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    version, spec = document.get("version"), document.get("spec")
    if version != VERSION:
        raise UnreadableSpec(
            f"was kept in format {version!r}, which this version of the operator does not know: "
            f"it knows format {VERSION}"
        )
    if not isinstance(spec, Mapping):
        raise UnreadableSpec("was kept in a text that is damaged")
    return cast("Mapping[str, Any]", spec)


def version_of(spec_hash: str) -> str:
    """Return the format of a hash: "v1" for `v1:4c1f0a9d2e`, "" for none."""
    version, colon, _ = spec_hash.partition(":")
    return version if colon else ""


def _canonical(value: Any) -> bytes:
    """Return JSON with sorted keys and no blanks."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def _uncompressed(text: bytes) -> bytes:
    """Return the JSON of a stored spec; empty if it would exceed the limit."""
    if text.startswith(b"{"):
        return text
    inflate = zlib.decompressobj()
    plain = inflate.decompress(base64.b64decode(text, validate=True), INFLATED_LIMIT_BYTES)
    return plain if inflate.eof else b""
