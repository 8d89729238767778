"""The form of each scheme's URI, as the CRD's rules have it, and what to write instead.

`tests/contract` holds these patterns and the CRD's together, character by character: they are
written so that Python and the RE2 of the API server read them alike.
"""

import re

__all__ = ["DOTS", "EXPECTED", "NAME_LIMIT", "PATTERNS", "SECRET_SAFE"]

NAME_LIMIT = 253

# RFC 1123 subdomain, the name of a ConfigMap or a claim.
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
# Printable ASCII without '#' and '?'; what else a name has is percent-encoded.
_PATH = r"""(/[!-"$->@-~]*)?"""
_ENDPOINT = r"endpoint=https?://[^/?#&@ ]+"
_REGION_OR_ENDPOINT = rf"(region=[a-z0-9-]+|{_ENDPOINT})"
_SHA256 = "(#sha256=[0-9a-f]{64})?"

PATTERNS = {
    "pvc": re.compile(rf"pvc://{_NAME}(/.*)?"),
    "configmap": re.compile(rf"configmap://{_NAME}"),
    "s3": re.compile(
        rf"s3://{_BUCKET}{_PATH}(\?{_REGION_OR_ENDPOINT}(&{_REGION_OR_ENDPOINT})?)?{_SHA256}"
    ),
    "gs": re.compile(rf"gs://{_BUCKET}{_PATH}(\?{_ENDPOINT})?{_SHA256}"),
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
DOTS = re.compile(r"/\.\.?(/|\Z)")
EXPECTED = {
    "pvc": "pvc://CLAIM/PATH with a PersistentVolumeClaim's name",
    "configmap": (
        "configmap://NAME with a ConfigMap's name, without a path: the whole ConfigMap is one "
        "model's folder"
    ),
    "s3": (
        "s3://BUCKET/PATH, after it ?region= and endpoint= (https://HOST) and, for one object, "
        "#sha256= and 64 hexadecimal digits"
    ),
    "gs": "gs://BUCKET/PATH, after it ?endpoint=https://HOST, and #sha256= for one object",
    "hf": "hf://OWNER/NAME@REVISION/PATH; @REVISION and /PATH may be left out",
    "oci": "oci://REGISTRY/NAME:TAG or @sha256: and the digest, after it ?path= in the image",
    "https": (
        "https://HOST/PATH/FILE without a user, and #sha256= and 64 hexadecimal digits where the "
        "file is to be verified"
    ),
}
# Schemes whose queries are not shown.
SECRET_SAFE = {"https"}
