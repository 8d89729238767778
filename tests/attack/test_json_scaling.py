"""Decoding time of every JSON decoder is linear in the size of the body, for any content."""

import json

import pytest

from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs import examples as tfs_examples
from moorage_runtime.codec.tfs import predict_request as tfs_predict_request
from moorage_runtime.codec.tfs import signatures as tfs_signatures
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import Datatype, TensorSpec
from support.attack import check_linear

pytestmark = pytest.mark.attack

KIB = 1024
SIGNATURE = tfs_signatures.signatures_of(
    ModelMetadata("m", "1", ("1",), "p", (TensorSpec("x", Datatype.FP32, (-1,)),), ())
)["serving_default"]
SURROGATE = r'"\ud800"'
NUMBERS = ",".join(map(str, range(5000)))


def repeated(text, size):
    """About this many bytes of a repeated text."""
    return (text * (size // len(text) + 1))[:size]


def items(item, size):
    return ",".join([item] * (size // (len(item) + 1)))


# JSON values of a given size: the data of a tensor, or the equivalent in another protocol.
VALUES = {
    "run of @": lambda n: f'"{"@" * n}"',
    "run of @ beside numbers": lambda n: f'[{NUMBERS}],"z":"{"@" * n}"',
    "run of DEL beside numbers": lambda n: f'[{NUMBERS}],"z":"{chr(127) * n}"',
    "escapes beside numbers": lambda n: f'[{NUMBERS}],"z":"{repeated(chr(92) * 2, n // 2 * 2)}"',
    "run of DEL": lambda n: '"' + "\x7f" * n + '"',
    "strings of @": lambda n: f"[{items(json.dumps('@' * 50), n)}]",
    "run of backslashes": lambda n: f'"{repeated(chr(92) * 2, n // 2 * 2)}"',
    "escaped quotes": lambda n: f'"{repeated(chr(92) + chr(34), n // 2 * 2)}"',
    "unclosed escapes": lambda n: f'"{repeated(chr(92) + chr(34), n // 2 * 2)}',
    "quotation marks": lambda n: '"' * n,
    "empty strings": lambda n: f"[{items(chr(34) * 2, n)}]",
    "short strings": lambda n: f"[{items(json.dumps('ab'), n)}]",
    "unicode escapes": lambda n: f"[{items(json.dumps('é😀'), n)}]",
    "surrogates": lambda n: f"[{items(SURROGATE, n)}]",
    "unicode": lambda n: f'["{repeated("é😀", n)}"]',
    "unicode, then an error": lambda n: f'["{repeated("é😀", n)}",]',
    "opening brackets": lambda n: "[" * n,
    "opening braces": lambda n: '{"a":' * (n // 5),
    "brackets": lambda n: f"{'[' * (n // 2)}{']' * (n // 2)}",
    "empty lists": lambda n: f"[{items('[]', n)}]",
    "empty objects": lambda n: f"[{items('{}', n)}]",
    "deep towers": lambda n: f"[{items('[' * 90 + '1' + ']' * 90, n)}]",
    "a deep tower behind numbers": lambda n: f"[{items('1', n)},{'[' * 90}1{']' * 90}]",
    "strings beside a deep tower": lambda n: (
        f"[{items(json.dumps('a'), n)},{'[' * 90}1{']' * 90}]"
    ),
    "lists that begin over and over": lambda n: repeated('"a":[', n),
    "lists of one string": lambda n: f"[{items('[' + json.dumps('a') + ']', n)}]",
    "a number of many digits": lambda n: "1" * n,
    "a fraction of many digits": lambda n: f"[0.{'1' * n}]",
    "an exponent of many digits": lambda n: f"[1e{'9' * n}]",
    "exponents": lambda n: f"[{items('1e-320', n)}]",
    "numbers with many digits": lambda n: f"[{items('0.' + '12' * 400, n)}]",
    "integers beyond 64 bits": lambda n: f"[{items('9' * 30, n)}]",
    "integers of 4301 digits": lambda n: f"[{items('9' * 4301, n)}]",
    "NaN": lambda n: f"[{items('NaN', n)}]",
    "infinities": lambda n: f"[{items('-Infinity', n)}]",
    "true": lambda n: f"[{items('true', n)}]",
    "numbers, then an error": lambda n: f"[{items('1', n)},]",
    "numbers in rows, then an error": lambda n: f"[{items('[1, 2]', n)},]",
    "ragged rows": lambda n: f"[{items('[1,2],[3]', n)}]",
    "commas": lambda n: f"[{',' * n}]",
    "white space": lambda n: f"[{' ' * n}1]",
    "long lists beside each other": lambda n: f'{{"c":[{items("[" + NUMBERS + "]", n)}]}}',
    "members with long lists": lambda n: (
        "{" + ",".join(f'"k{i}":[{NUMBERS}]' for i in range(n // len(NUMBERS))) + "}"
    ),
    "members": lambda n: "{" + ",".join(f'"k{i}":1' for i in range(n // 8)) + "}",
    "one member again and again": lambda n: "{" + items('"k":1', n) + "}",
}


def oip(text):
    return oip_request.decode(text, None, "m", "").request


def tfs(text):
    document = tfs_document.parse_object(text)
    if "examples" in document:
        return tfs_examples.decode_examples(document, SIGNATURE)
    return tfs_predict_request.decode_predict(document, SIGNATURE)


FORMS = {
    "oip data": (oip, '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":%s}]}'),
    "oip bytes": (oip, '{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":%s}]}'),
    "oip shape": (oip, '{"inputs":[{"name":"x","shape":%s,"datatype":"FP32","data":[1]}]}'),
    "oip inputs": (oip, '{"inputs":%s}'),
    "oip parameters": (oip, '{"parameters":%s,"inputs":[]}'),
    "tfs instances": (tfs, '{"instances":%s}'),
    "tfs inputs": (tfs, '{"inputs":{"x":%s}}'),
    "tfs examples": (tfs, '{"examples":%s}'),
    "grps tensor": (
        grps_json.decode,
        '{"gtensors":{"tensors":[{"name":"x","dtype":"DT_INT64","shape":[1],"flat_int64":%s}]}}',
    ),
    "grps ndarray": (grps_json.decode, '{"ndarray":%s}'),
    "grps map": (grps_json.decode, '{"gmap":{"s_i64":%s}}'),
}
SIZE = 64 * KIB


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_decoding_time_is_linear_in_the_body(form, value):
    take, text = FORMS[form]

    check_linear(
        f"{form} of {value}", lambda scale: (text % VALUES[value](SIZE * scale)).encode(), take
    )


@pytest.mark.parametrize(
    "item",
    [
        '{"name":"x","datatype":"INT8","shape":[1],"data":[1]}',
        '{"name":"x","datatype":"INT8","shape":[1],"data":[1],"parameters":{"a":1}}',
    ],
)
def test_decoding_time_is_linear_in_the_inputs(item):
    check_linear("inputs", lambda n: f'{{"inputs":[{items(item, n * 200_000)}]}}'.encode(), oip)
