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
    # settings that need another one
    base = {
        "MOORAGE_MODEL_REPOSITORY": "/r",
        "MOORAGE_TLS_KEY": "/k",
        "MOORAGE_TLS_CERTIFICATE": "/c",
    }

    by_option = parse([f"{setting.flag}={text}"], base)
    by_variable = parse([], {**base, setting.variable: text})

    assert by_option == by_variable
    assert getattr(by_option, setting.field) == setting.read(text)


def test_an_option_wins_over_its_variable():
    assert parse(["--http-port=1"], {"MOORAGE_HTTP_PORT": "2"}).http_port == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--http-port="], "--http-port is '', expected a port, 0 for any free one"),
        (["--http-port=1.5"], "--http-port is '1.5', expected a port"),
        (["--http-port=-1"], "--http-port is '-1', expected a port"),
        (["--threads=-1"], "--threads is '-1', expected a number"),
        (["--max-request-bytes=0"], "--max-request-bytes is '0', expected bytes"),
        (["--drain-seconds=inf"], "--drain-seconds is 'inf', expected seconds"),
        (["--drain-seconds=nan"], "--drain-seconds is 'nan', expected seconds"),
        (["--start-offline=1"], "--start-offline is '1', expected true or false"),
        (["--protocols=,"], "--protocols is ',', expected a comma-separated list"),
        (["--log-format=xml"], "--log-format is 'xml', expected auto, json or text"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(arguments, sentence):
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
    with pytest.raises(SettingError, match="expected both or none"):
        parse([option], {})


def test_variables_that_mean_nothing_are_found():
    environment = {"MOORAGE_HTTP_PROT": "1", "MOORAGE_HTTP_PORT": "1", "HOME": "/"}

    assert unknown_variables(environment) == ("MOORAGE_HTTP_PROT",)
