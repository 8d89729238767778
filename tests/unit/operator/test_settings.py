import pytest

from moorage_operator.config import OperatorConfig
from moorage_operator.settings import OPTIONS, Settings, SettingsError, parse, parser

REQUIRED = {"MOORAGE_RUNTIME_IMAGE": "runtime:1"}


def settings(*flags: str, **environ: str) -> Settings:
    return parse(flags, {**REQUIRED, **environ}, version="1")


def test_defaults_are_what_the_help_says() -> None:
    assert settings() == Settings(
        namespaces=(),
        config=OperatorConfig(runtime_image="runtime:1"),
        workers=32,
        polls_a_second=50,
        health_host="0.0.0.0",
        health_port=8080,
        log_format="json",
        log_level="info",
    )


def test_a_flag_wins_over_its_variable() -> None:
    found = settings("--log-level", "debug", MOORAGE_LOG_LEVEL="error", MOORAGE_WORKERS="3")

    assert (found.log_level, found.workers) == ("debug", 3)


def test_namespaces_are_a_list_without_doubles() -> None:
    assert settings("--namespaces", "a, b,a,").namespaces == ("a", "b")


@pytest.mark.parametrize(
    "selector",
    [
        "moorage.dev/shard=a",
        "a==b,c!=d",
        "!moorage.dev/shard",
        "team in (x, y), stage notin (test)",
        "canary",
        "a=",
    ],
)
def test_a_label_selector_is_taken_as_the_api_server_takes_it(selector: str) -> None:
    assert settings("--watch-label-selector", f" {selector} ").watch_label_selector == selector


def test_default_resources_are_json() -> None:
    found = settings(MOORAGE_DEFAULT_RESOURCES='{"requests":{"cpu":"1"}}')

    assert found.config.default_resources == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MOORAGE_NAMESPACES", "a,B", "'B'"),
        ("MOORAGE_RUNTIME_IMAGE", "", "an image reference"),
        ("MOORAGE_RUNTIME_IMAGE", "a b", "an image reference"),
        ("MOORAGE_IMAGE_PULL_POLICY", "Sometimes", "'IfNotPresent'"),
        ("MOORAGE_CLUSTER_DOMAIN", "http://x", "a DNS domain"),
        ("MOORAGE_DEFAULT_RESOURCES", "{", "as JSON"),
        ("MOORAGE_DEFAULT_RESOURCES", "[]", "a JSON object"),
        ("MOORAGE_DEFAULT_RESOURCES", '{"cpu":1}', "'cpu'"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "shard: a", "'shard: a' is no requirement"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "a=b,", "a label selector like moorage.dev/shard=a"),
        ("MOORAGE_WATCH_LABEL_SELECTOR", "a in b", "'a in b' is no requirement"),
        ("MOORAGE_WORKERS", "0", "from 1 to 256"),
        ("MOORAGE_WORKERS", "1.5", "from 1 to 256"),
        ("MOORAGE_HEALTH_PORT", "-1", "from 0 to 65535"),
        ("MOORAGE_LOG_FORMAT", "xml", "'json', 'text'"),
        ("MOORAGE_LOG_LEVEL", "loud", "'info'"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_value_and_what_was_expected(
    variable: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(**{variable: value})

    assert str(caught.value).startswith(f"{variable}: {value!r} cannot be used, expected ")
    assert said in str(caught.value)


def test_a_wrong_flag_is_named_as_the_flag() -> None:
    with pytest.raises(SettingsError, match=r"^--workers: 'x'"):
        settings("--workers", "x")


def test_a_missing_image_says_what_to_set() -> None:
    with pytest.raises(
        SettingsError, match=r"^--runtime-image or MOORAGE_RUNTIME_IMAGE must be set"
    ):
        parse((), {}, version="1")


@pytest.mark.parametrize("flags", [("--log-levle", "info"), ("--work", "3"), ("extra",)])
def test_an_unknown_flag_is_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=flags[0]):
        settings(*flags)


def test_an_unknown_variable_of_ours_is_refused() -> None:
    with pytest.raises(SettingsError, match="MOORAGE_LOG_LEVLE is no setting"):
        settings(MOORAGE_LOG_LEVLE="info")


@pytest.mark.parametrize(
    "name",
    [
        "MOORAGE_SERVICE_HOST",
        "MOORAGE_METRICS_SERVICE_PORT_HTTP",
        "MOORAGE_PORT",
        "MOORAGE_METRICS_PORT_8080_TCP_ADDR",
    ],
)
def test_variables_that_kubernetes_makes_for_a_service_are_no_settings(name: str) -> None:
    settings(**{name: "tcp://10.0.0.1:8080"})


def test_the_help_tells_every_flag_variable_and_default() -> None:
    text = " ".join(parser("1").format_help().split())

    for option in OPTIONS:
        assert option.flag in text
        assert f"[{option.variable}]" in text


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_end_with_success(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse((flag,), {}, version="1.2.3")

    assert ended.value.code == 0
    assert "moorage-operator" in capsys.readouterr().out
