"""A server whose certificate authority is replaced, and sessions that read it from a file."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from moorage_operator.kube import errors, kinds, traced, trust
from moorage_operator.kube.auth import Access, from_kubeconfig, from_service_account
from moorage_operator.kube.client import KubeClient
from support.certificates import Authority

HOST = "localhost"


async def answer(request: web.Request) -> web.Response:
    del request
    return web.json_response({"major": "1"})


@asynccontextmanager
async def serving(authority: Authority, folder: Path, port: int = 0) -> AsyncIterator[int]:
    """A TLS server with a certificate of this authority; yields its port."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    context = authority.issue(HOST).server_context(folder)
    await web.TCPSite(runner, HOST, port, ssl_context=context, reuse_address=True).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def access_to(port: int, folder: Path, authority: Authority) -> Access:
    """The access of a pod."""
    (folder / "ca.crt").write_text(authority.certificate)
    (folder / "token").write_text("token")
    return from_service_account(HOST, str(port), folder)


async def test_a_client_trusts_the_authority_that_replaces_the_one_of_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before, after = Authority("before"), Authority("after")
    async with AsyncExitStack() as stack:
        async with serving(before, tmp_path) as port:
            access = access_to(port, tmp_path, before)
            client = await stack.enter_async_context(KubeClient(access))
            await client.server_version()
        await stack.enter_async_context(serving(after, tmp_path, port))
        # The file is not replaced yet, then it is being written. The third failure is the reason
        # to read it again.
        for content in (before.certificate, "", after.certificate):
            (tmp_path / "ca.crt").write_text(content)
            with pytest.raises(errors.Unreachable):
                await client.server_version()

        assert await client.server_version() == {"major": "1"}
    assert said(caplog) == [
        "the authority cannot be read", "trusts the new authority of the API server"
    ]  # fmt: skip
    assert "empty" in caplog.records[0].__dict__["error"].lower()


async def test_a_new_authority_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before, after, another = (Authority(name) for name in ("before", "after", "another"))
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(another, tmp_path))
        client = await stack.enter_async_context(KubeClient(access_to(port, tmp_path, before)))
        (tmp_path / "ca.crt").write_text(after.certificate)
        for _ in range(2):
            with pytest.raises(errors.Unreachable):
                await client.server_version()
    assert said(caplog) == ["trusts the new authority of the API server"]


async def test_a_session_for_kopf_trusts_the_authority_that_replaces_the_one_of_its_start(
    tmp_path: Path,
) -> None:
    before, after = Authority("before"), Authority("after")
    async with serving(after, tmp_path) as port:
        access = access_to(port, tmp_path, before)
        async with traced.open_session(access, None, kinds.INFERENCE_MODELS, {}) as session:
            (tmp_path / "ca.crt").write_text(after.certificate)
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(access.server)

            async with session.get(access.server) as found:
                assert found.status == 200


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about the authority."""
    return [each.message for each in caplog.records if each.name == trust.__name__]


@pytest.mark.parametrize("is_inline", [False, True])
async def test_another_authority_than_that_of_the_file_is_never_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_inline: bool
) -> None:
    caplog.set_level(logging.INFO)
    ours, another = Authority("ours"), Authority("another")
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(another, tmp_path))
        access = access_to(port, tmp_path, ours)
        if is_inline:
            access = replace(access, ca_path=None)
        client = await stack.enter_async_context(KubeClient(access))
        for _ in range(3):
            with pytest.raises(errors.Unreachable, match="certificate verify failed"):
                await client.server_version()
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        ({"certificate-authority": "ca.crt"}, "ca.crt"),
        ({"certificate-authority": "ca.crt", "certificate-authority-data": "QQ=="}, None),
        ({}, None),
    ],
)
def test_the_file_of_a_kubeconfig_is_read_again_unless_the_authority_is_inline(
    tmp_path: Path, cluster: dict[str, str], name: str | None
) -> None:
    (tmp_path / "ca.crt").write_text("A")
    config = tmp_path / "config"
    lines = "".join(f", {key}: {value}" for key, value in cluster.items())
    config.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        f"clusters: [{{name: a, cluster: {{server: https://host{lines}}}}}]\n"
        "users: [{name: a, user: {}}]\n"
    )

    access = from_kubeconfig([config])

    assert access.ca_path == (tmp_path / name if name else None)
