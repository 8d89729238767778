"""spec.model: the location of a model, its download, and a sentence for each invalid value."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.model_spec import (
    Credentials,
    Download,
    Files,
    ImageVolume,
    ModelSpec,
    parse_model,
)
from moorage_operator.api.model_uri import ModelUri, Scheme
from support.spec_sentences import UNKNOWN

ANY = (
    "pvc://CLAIM/PATH, configmap://NAME, s3://BUCKET/PATH, gs://BUCKET/PATH, "
    "azblob://ACCOUNT/CONTAINER/PATH, hf://OWNER/NAME, oci://REGISTRY/NAME:TAG or "
    "https://HOST/PATH/FILE"
)
PVC = "pvc://CLAIM/PATH with a valid PersistentVolumeClaim name"
CONFIG_MAP = (
    "configmap://NAME with a valid ConfigMap name and without a path, because the whole ConfigMap "
    "is one model folder"
)
S3 = (
    "s3://BUCKET/PATH, optionally followed by ?region=REGION&endpoint=https://HOST and, for a "
    "single object, by #sha256= and 64 hexadecimal digits"
)
HTTPS = (
    "https://HOST/PATH/FILE without a user name or password, optionally followed by #sha256= and "
    "64 hexadecimal digits to verify the file"
)
DOTS = "path must not contain '.' or '..' segments"
SEGMENT = "letters, digits, '.', '_' and '-', and not only dots"
NAME = "letters, digits, '.', '_', '-', '/', ':', '@' and '+', with a letter or digit"
ONLY_DOWNLOADED = (
    "applies only to a downloaded model; remove it, or set uri to a location such as "
    "s3://BUCKET/PATH"
)
ONLY_IMAGES = (
    "applies only to an image in a registry; remove it, or set uri to oci://REGISTRY/NAME:TAG"
)
ALWAYS = (
    "with Always the node pulls the whole image; remove credentials, download and files and set "
    "imagePullSecrets, or set imageVolume to Never"
)
PATTERN = (
    "a pattern of at most 256 characters for the path of a file below the URI, such as *.onnx or "
    "onnx/*, without a leading slash"
)
IMAGE = "oci://ghcr.io/a/iris:1"


def read(**spec: Any) -> tuple[ModelSpec, list[Problem], Any]:
    """A model, its problems, and what is written of it."""
    problems: list[Problem] = []
    fields = Fields(spec, "spec.model", problems)
    parsed = parse_model(fields, "iris")
    return parsed, problems, fields.written()


def test_a_model_has_its_defaults():
    spelled = {
        "name": "iris",
        "imageVolume": "Auto",
        "trusted": False,
        "credentials": {},
        "download": {"resources": {}},
        "files": {"include": []},
    }
    for spec in ({}, spelled):
        parsed, problems, written = read(uri=IMAGE, **spec)

        assert parsed == ModelSpec("iris", uri=ModelUri(Scheme.OCI, "", "", IMAGE))
        assert (problems, written) == ([], {"uri": IMAGE})


def test_every_field_is_read():
    spec = {
        "name": "..rose",
        "version": "3",
        "uri": "s3://models/iris",
        "credentials": {"secretName": "s3"},
        "download": {"sizeLimit": "20Gi", "resources": {"limits": {"memory": "1Gi"}}},
        "files": {"include": ["*.onnx"], "exclude": ["a/*", "b"]},
        "trusted": True,
        "format": "onnx",
    }
    parsed, problems, written = read(**spec)

    assert problems == []
    assert written == spec
    assert parsed == ModelSpec(
        "..rose",
        "3",
        ModelUri(Scheme.S3, "", "", "s3://models/iris"),
        Credentials("s3"),
        Download("20Gi", {"limits": {"memory": "1Gi"}}),
        Files(("*.onnx",), ("a/*", "b")),
        trusted=True,
        format="onnx",
    )


# ---------------------------------------------------------------------- the URI


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("pvc://claim", (Scheme.PVC, "claim", "")),
        ("pvc://claim/", (Scheme.PVC, "claim", "")),
        ("pvc://my.claim//XGBoost/b.onnx/", (Scheme.PVC, "my.claim", "XGBoost/b.onnx")),
        ("pvc://claim/a%20b://c", (Scheme.PVC, "claim", "a%20b://c")),
        (f"pvc://{'a' * 253}/a..b", (Scheme.PVC, "a" * 253, "a..b")),
        ("configmap://digits-files", (Scheme.CONFIG_MAP, "digits-files", "")),
        ("s3://models/iris?region=eu-west-1", (Scheme.S3, "", "")),
        ("https://host/iris.tgz?path=../x", (Scheme.HTTPS, "", "")),
        (IMAGE, (Scheme.OCI, "", "")),
        (f"{IMAGE}?path=/XGBoost/iris%201/", (Scheme.OCI, "", "XGBoost/iris 1")),
    ],
)
def test_a_uri_is_read(uri, expected):
    parsed, problems, _ = read(uri=uri)

    assert problems == []
    assert parsed.uri == ModelUri(*expected, uri)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("models/iris", f"'models/iris' is invalid: must be {ANY}"),
        ("pvc:claim", f"'pvc:claim' is invalid: must be {ANY}"),
        ("pvc://", f"'pvc://' is invalid: must be {PVC}"),
        ("pvc://Big/x", f"'pvc://Big/x' is invalid: must be {PVC}"),
        ("configmap://name/key", f"'configmap://name/key' is invalid: must be {CONFIG_MAP}"),
        ("s3://bucket/k?zone=a", f"'s3://bucket/k?zone=a' is invalid: must be {S3}"),
        ("https://host", f"'https://host' is invalid: must be {HTTPS}"),
        ("pvc://claim/../x", f"'pvc://claim/../x' is invalid: {DOTS}"),
        ("s3://bucket/a/.", f"'s3://bucket/a/.' is invalid: {DOTS}"),
        (f"{IMAGE}?path=..", f"'{IMAGE}?path=..' is invalid: {DOTS}"),
        (f"{IMAGE}?path=./a", f"'{IMAGE}?path=./a' is invalid: {DOTS}"),
        (f"{IMAGE}?path=a/%2e%2E", f"'{IMAGE}?path=a/%2e%2E' is invalid: {DOTS}"),
        (
            f"pvc://{'a' * 254}/x",
            (f"'pvc://{'a' * 70}... is invalid: '{'a' * 76}... is longer than 253 characters"),
        ),
    ],
)
def test_an_invalid_uri_is_reported_with_the_valid_forms(uri, expected):
    parsed, problems, _ = read(uri=uri)

    assert problems == [Problem("spec.model.uri", expected)]
    assert parsed.uri is None


def test_an_unsupported_scheme_has_a_reason_of_its_own():
    parsed, problems, _ = read(uri="ftp://a/b")

    message = f"'ftp://a/b' has an unsupported scheme: must be {ANY}"
    assert problems == [Problem("spec.model.uri", message, "UnsupportedScheme")]
    assert parsed.uri is None


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://user:secret@host/file", "'https://***@host/file'"),
        ("https://host/?signature=secret", "'https://host/?***'"),
        ("http://user:secret@host/file?a=secret\n", "'http://***@host/file?***'"),
        ("s3://key:secret@bucket/a?zone=x", "'s3://***@bucket/a?zone=x'"),
        ("hf://owner/name@", "'hf://owner/name@'"),
    ],
)
def test_a_secret_in_an_invalid_uri_is_not_repeated(uri, shown):
    (problem,) = read(uri=uri)[1]

    assert problem.message.startswith(f"{shown} ")
    assert "secret" not in problem.message


@pytest.mark.parametrize(
    ("uri", "image"),
    [
        ("oci://ghcr.io/a/iris:1", "ghcr.io/a/iris:1"),
        ("oci://ghcr.io/a/iris:1?path=a://b", "ghcr.io/a/iris:1"),
        ("oci://host:5000/iris@sha256:" + "a" * 64, "host:5000/iris@sha256:" + "a" * 64),
    ],
)
def test_an_image_is_named_as_container_runtimes_expect(uri, image):
    found = read(uri=uri)[0].uri

    assert found
    assert found.image == image


@pytest.mark.parametrize(
    ("scheme", "fetched"),
    [*((scheme, False) for scheme in ("pvc", "configmap")),
     *((scheme, True) for scheme in ("s3", "gs", "azblob", "hf", "oci", "https"))],
)  # fmt: skip
def test_all_but_volumes_are_downloaded(scheme, fetched):
    assert Scheme(scheme).is_fetched is fetched


# ---------------------------------------------------------------------- other fields


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"name": "a b"}, f"name: 'a b' is invalid: must be {NAME}"),
        ({"name": ".."}, f"name: '..' is invalid: must be {NAME}"),
        ({"version": "a/b"}, f"version: 'a/b' is invalid: must be {SEGMENT}"),
        ({"version": "."}, f"version: '.' is invalid: must be {SEGMENT}"),
        (
            {"credentials": {"secretName": "S3"}},
            "credentials.secretName: 'S3' is invalid: must be a valid name of a Secret",
        ),
        (
            {"credentials": {"secretName": "a" * 254}},
            (
                f"credentials.secretName: '{'a' * 76}... is invalid: must be a valid name of a "
                "Secret"
            ),
        ),
        ({"credentials": {"key": "a"}}, f"credentials.key: {UNKNOWN}"),
        (
            {"download": {"sizeLimit": "1.5Gi"}},
            (
                "download.sizeLimit: '1.5Gi' is invalid: must be a whole number of bytes, "
                "optionally with a unit, such as 20Gi"
            ),
        ),
        ({"download": {"size": "1"}}, f"download.size: {UNKNOWN}"),
        ({"files": {"include": ["/a"]}}, f"files.include: '/a' is invalid: must be {PATTERN}"),
        (
            {"files": {"exclude": ["a", "x" * 257]}},
            f"files.exclude: '{'x' * 76}... is invalid: must be {PATTERN}",
        ),
        (
            {"files": {"exclude": ["a"] * 33}},
            "files.exclude: has 33 patterns: must have at most 32",
        ),
        ({"files": {"only": ["a"]}}, f"files.only: {UNKNOWN}"),
        (
            {"imageVolume": "On"},
            "imageVolume: 'On' is invalid: must be one of Auto, Always, Never",
        ),
        ({"trusted": "yes"}, "trusted: 'yes' is invalid: must be true or false"),
        (
            {"format": "Onnx"},
            (
                "format: 'Onnx' is invalid: must be 1 to 63 lowercase letters, digits, '.' and "
                "'-', with a letter or digit at both ends, such as savedmodel"
            ),
        ),
        ({"size": 1}, f"size: {UNKNOWN}"),
    ],
)
def test_an_invalid_field_is_reported_and_has_its_default(spec, expected):
    parsed, problems, _ = read(uri=IMAGE, **spec)

    assert [str(each) for each in problems] == [f"spec.model.{expected}"]
    assert parsed == ModelSpec("iris", uri=ModelUri(Scheme.OCI, "", "", IMAGE))


def test_the_longest_names_and_patterns_are_accepted():
    parsed, problems, _ = read(
        uri=IMAGE,
        credentials={"secretName": "a" * 253},
        files={"include": ["x" * 256, *["b"] * 31]},
    )

    assert problems == []
    assert parsed.credentials.secret_name == "a" * 253
    assert len(parsed.files.include) == 32


# ---------------------------------------------------------------------- together


@pytest.mark.parametrize("uri", ["pvc://claim", "configmap://files", None])
@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("credentials", {"secretName": "a"}),
        ("download", {"sizeLimit": "1Gi"}),
        ("files", {"include": ["a"]}),
    ],
)
def test_settings_of_a_download_need_one(uri, name, section):
    problems = read(uri=uri, **{name: section})[1]

    assert [str(each) for each in problems] == [f"spec.model.{name}: {ONLY_DOWNLOADED}"]


@pytest.mark.parametrize("choice", ["Always", "Never"])
@pytest.mark.parametrize("uri", ["pvc://claim", "s3://models/iris", None])
def test_an_image_volume_needs_an_image(uri, choice):
    problems = read(uri=uri, imageVolume=choice)[1]

    assert [str(each) for each in problems] == [f"spec.model.imageVolume: {ONLY_IMAGES}"]


def test_what_an_invalid_uri_would_need_is_not_judged():
    secret = {"secretName": "a"}

    problems = read(uri="oci://ghcr.io/a", imageVolume="Always", credentials=secret)[1]

    assert [each.path for each in problems] == ["spec.model.uri"]


SETTINGS = [
    {"credentials": {"secretName": "a"}},
    {"download": {"sizeLimit": "1Gi"}},
    {"files": {"exclude": ["a"]}},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_node_that_pulls_an_image_has_no_settings_of_a_download(settings):
    always = read(uri=IMAGE, imageVolume="Always", **settings)[1]

    assert [str(each) for each in always] == [f"spec.model.imageVolume: {ALWAYS}"]
    assert read(uri=IMAGE, imageVolume="Never", **settings)[1] == []
    assert read(uri=IMAGE, imageVolume="Always")[1] == []


@pytest.mark.parametrize(
    ("choice", "without", "with_settings"),
    [("Auto", True, False), ("Always", True, True), ("Never", False, False)],
)
def test_the_choice_decides_whether_the_node_mounts_the_image(choice, without, with_settings):
    bare = ModelSpec(
        "a", uri=ModelUri(Scheme.OCI, "", "", IMAGE), image_volume=ImageVolume(choice)
    )
    assert bare.is_mounted_image(available=True) is without
    assert bare.is_mounted_image(available=False) is (choice == "Always")
    for settings in SETTINGS:
        parsed = read(uri=IMAGE, imageVolume=choice, **settings)[0]
        assert parsed.is_mounted_image(available=True) is with_settings


@pytest.mark.parametrize("uri", ["pvc://claim", "s3://models/iris", None])
def test_only_an_image_is_mounted_as_one(uri):
    assert not read(uri=uri)[0].is_mounted_image(available=True)
