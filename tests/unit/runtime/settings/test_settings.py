import importlib.metadata
import pathlib

import pytest

from moorage_runtime.settings import SETTINGS, SettingError, parse, unknown_variables


def test_the_defaults():
    settings = parse([], {})

    assert settings.http_port == 8000
    assert settings.grpc_port == 8001
    assert settings.model_repository is None
    assert settings.protocols == ("oip", "tensorflow-serving", "grps")
    assert settings.max_request_bytes == 64 * 1024 * 1024
    assert settings.start_offline is False


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.field)
def test_every_setting_has_an_option_and_a_variable(setting):
    text = {"model_name": "m", "default_model": "m", "host": "::1"}.get(setting.field)
    text = text or setting.default or "x"
    # settings that require another one
    base = {
        "MOORAGE_MODEL_REPOSITORY": "/r",
        "MOORAGE_TLS_KEY": "/k",
        "MOORAGE_TLS_CERTIFICATE": "/c",
    }
    if setting.field == "ready_models":
        base["MOORAGE_READY_WHEN"] = "listed"

    by_option = parse([f"{setting.flag}={text}"], base)
    by_variable = parse([], {**base, setting.variable: text})

    assert by_option == by_variable
    assert getattr(by_option, setting.field) == setting.read(text)


def test_version_prints_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--version"], {})

    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == [
        "moorage-runtime",
        importlib.metadata.version("moorage-runtime"),
    ]


def test_an_option_overrides_its_variable():
    assert parse(["--http-port=1"], {"MOORAGE_HTTP_PORT": "2"}).http_port == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--http-port="], "--http-port: ''"),
        (["--http-port=1.5"], "--http-port: '1.5'"),
        (["--http-port=-1"], "--http-port: '-1'"),
        (["--threads=-1"], "--threads: '-1'"),
        (["--max-request-bytes=0"], "--max-request-bytes: '0'"),
        (["--drain-seconds=inf"], "--drain-seconds: 'inf'"),
        (["--drain-seconds=nan"], "--drain-seconds: 'nan'"),
        (["--start-offline=1"], "--start-offline: '1'"),
        (["--protocols=,"], "--protocols: ','"),
        (["--log-format=xml"], "--log-format: 'xml'"),
    ],
)
def test_an_invalid_value_is_reported_with_what_is_allowed(arguments, sentence):
    with pytest.raises(SettingError) as caught:
        parse(arguments, {})

    assert str(caught.value).startswith(sentence)


def test_a_name_needs_a_repository():
    with pytest.raises(SettingError, match="--model-name"):
        parse(["--model-name=m"], {})

    named = parse(["--model-name=m", "--model-repository=/r"], {})
    assert named.model_repository == pathlib.Path("/r")


@pytest.mark.parametrize("option", ["--tls-key=/k", "--tls-certificate=/c"])
def test_a_certificate_needs_its_key(option):
    with pytest.raises(
        SettingError, match=r"--tls-certificate \(MOORAGE_TLS_CERTIFICATE\) and --tls-key"
    ):
        parse([option], {})


def test_unknown_variables_are_found():
    environment = {"MOORAGE_HTTP_PROT": "1", "MOORAGE_HTTP_PORT": "1", "HOME": "/"}

    assert unknown_variables(environment) == ("MOORAGE_HTTP_PROT",)
