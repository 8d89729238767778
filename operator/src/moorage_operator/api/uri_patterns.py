"""The grammar of `spec.model.uri`: the pattern of each scheme and a description of it.

    **uri_patterns** --> tests/contract --> rules of the CRD --> API server, `moorage lint`
                                       --> moorage_runtime.fetch.decide.source

A new scheme is added here first. `test_crd_against_types` then requires the same patterns and
descriptions in the CRD, character by character, and `test_fetch_against_operator` that the init
container reads what the patterns accept. The patterns only use syntax that Python and RE2, which
the API server uses, treat the same way.
"""

import re

__all__ = ["DOTS", "EXPECTED", "NAME_LIMIT", "PATTERNS"]

NAME_LIMIT = 253

# RFC 1123 subdomain, the name of a ConfigMap or a claim.
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
# Printable ASCII without '#' and '?'; other characters must be percent-encoded.
_PATH = r"""(/[!-"$->@-~]*)?"""
_ENDPOINT = r"endpoint=https?://[^/?#&@ ]+"
_REGION_OR_ENDPOINT = rf"(region=[a-z0-9-]+|{_ENDPOINT})"
_CONTAINER = "[a-z0-9](-?[a-z0-9]){2,62}"
_SHA256 = "(#sha256=[0-9a-f]{64})?"

PATTERNS = {
    "pvc": re.compile(rf"pvc://{_NAME}(/.*)?"),
    "configmap": re.compile(rf"configmap://{_NAME}"),
    "s3": re.compile(
        rf"s3://{_BUCKET}{_PATH}(\?{_REGION_OR_ENDPOINT}(&{_REGION_OR_ENDPOINT})?)?{_SHA256}"
    ),
    "gs": re.compile(rf"gs://{_BUCKET}{_PATH}(\?{_ENDPOINT})?{_SHA256}"),
    "azblob": re.compile(
        rf"azblob://[a-z0-9]{{3,24}}/{_CONTAINER}{_PATH}(\?{_ENDPOINT})?{_SHA256}"
    ),
    "hf": re.compile(
        r"""hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[!"$-.0-;=A-~]+)?"""
        rf"{_PATH}(\?{_ENDPOINT})?"
    ),
    "oci": re.compile(
        r"oci://[A-Za-z0-9.:-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*"
        r"(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})"
        r"""(\?path=[!"$%(->@-~]+)?"""
    ),
    "https": re.compile(
        r"""https://[A-Za-z0-9.:-]+/([!-"$->@-~]*/)?[!-"$-.0->@-~]+(\?[!-"$-~]*)?""" + _SHA256
    ),
}
DOTS = re.compile(r"(/|^oci://[^?]*[?]path=)\.\.?(/|\Z)")
EXPECTED = {
    "pvc": "pvc://CLAIM/PATH with a valid PersistentVolumeClaim name",
    "configmap": (
        "configmap://NAME with a valid ConfigMap name and without a path, because the whole "
        "ConfigMap is one model folder"
    ),
    "s3": (
        "s3://BUCKET/PATH, optionally followed by ?region=REGION&endpoint=https://HOST and, for a "
        "single object, by #sha256= and 64 hexadecimal digits"
    ),
    "gs": (
        "gs://BUCKET/PATH, optionally followed by ?endpoint=https://HOST and, for a single "
        "object, by #sha256= and 64 hexadecimal digits"
    ),
    "azblob": (
        "azblob://ACCOUNT/CONTAINER/PATH, optionally followed by ?endpoint=https://HOST and, for "
        "a single blob, by #sha256= and 64 hexadecimal digits"
    ),
    "hf": "hf://OWNER/NAME, optionally followed by @REVISION, /PATH and ?endpoint=https://HOST",
    "oci": (
        "oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST, optionally followed by "
        "?path=PATH for a path in the image"
    ),
    "https": (
        "https://HOST/PATH/FILE without a user name or password, optionally followed by #sha256= "
        "and 64 hexadecimal digits to verify the file"
    ),
}
