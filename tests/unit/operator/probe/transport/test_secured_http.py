"""HTTP queries with TLS and tokens, to real servers with certificates of a private CA."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moorage_operator.probe.transport.credentials import AGAIN_SECONDS, Credentials
from moorage_operator.probe.transport.http_client import HttpClient, Reply
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import Access, ProbeTarget
from moorage_operator.values.secret_content import Unread
from support.certificates import Authority, Issued
from support.probe_targets import byte_server, target

NAME = "iris.team.svc"
DAY = dt.timedelta(days=1)
TLS = Access("team", tls_secret="iris-tls", server_name=NAME)
BOTH = Access("team", "iris-tls", NAME, "iris-tokens")
TOKEN = Access("team", token_secret="iris-tokens")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
FORBIDDEN = Unread("may not be read by the operator", "system:serviceaccount:moorage:moorage")


class Cluster:
    """The Secrets of a cluster, the reads of them, and a clock."""

    def __init__(self, **secrets: Mapping[str, str] | Unread) -> None:
        self.secrets = {name.replace("_", "-"): found for name, found in secrets.items()}
        self.reads: list[str] = []
        self.now = 100.0

    async def read(self, namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        assert namespace == "team"
        self.reads.append(name)
        found = self.secrets.get(name, Unread("does not exist"))
        if isinstance(found, Unread):
            return found
        return {key: value.encode() for key, value in found.items()}

    def client(self, ca_file: str = "") -> HttpClient:
        return HttpClient(Credentials(self.read, lambda: self.now, ca_file=ca_file))


@asynccontextmanager
async def serving(
    context: ssl.SSLContext | None, answer: Callable[[bytes], bytes] = lambda _: OK
) -> AsyncIterator[str]:
    """The address of a server that answers each request head."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(answer(await reader.readuntil(b"\r\n\r\n")))
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def bearer(*tokens: str) -> Callable[[bytes], bytes]:
    """Answers 401 to a request without one of these tokens."""
    heads = [f"Authorization: Bearer {token}\r\n".encode() for token in tokens]

    def answer(head: bytes) -> bytes:
        if any(each in head for each in heads):
            return OK
        return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

    return answer


async def asked(http: HttpClient, of: ProbeTarget) -> Reply | Answer:
    return await http.get(of, "/v2")


async def refused(http: HttpClient, of: ProbeTarget) -> Answer:
    answer = await asked(http, of)
    assert isinstance(answer, Answer), answer
    return answer


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue(NAME)


async def test_a_certificate_of_the_secrets_ca_is_trusted(issued: Issued, tmp_path: Path) -> None:
    http = Cluster(iris_tls=issued.secret).client()

    async with serving(issued.server_context(tmp_path)) as server:
        reply = await asked(http, target(server, access=TLS))

    assert isinstance(reply, Reply)
    assert reply.body == b"{}"


@pytest.mark.parametrize(
    ("names", "since", "until", "expected"),
    [
        ([NAME], -2 * DAY, -DAY, "has expired: renew it"),
        ([NAME], DAY, 2 * DAY, "is not valid yet"),
        (["other.svc"], -DAY, DAY, f"is not for {NAME}: issue it for this name"),
    ],
)
async def test_a_wrong_certificate_is_reported(
    authority: Authority,
    tmp_path: Path,
    names: list[str],
    since: dt.timedelta,
    until: dt.timedelta,
    expected: str,
) -> None:
    wrong = authority.issue(*names, since=since, until=until)
    http = Cluster(iris_tls=wrong.secret).client()

    async with serving(wrong.server_context(tmp_path)) as server:
        answer = await refused(http, target(server, access=TLS))

    assert (answer.verdict, answer.reason) == (None, AnswerReason.NOT_TRUSTED)
    assert answer.message.startswith(f"the certificate of {server.removeprefix('http://')} ")
    assert expected in answer.message


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        (
            {"tls.crt": "", "tls.key": ""},
            "among the CAs of the operator's image (Secret iris-tls has no ca.crt)",
        ),
        (Unread("does not exist"), "(Secret iris-tls does not exist)"),
        (
            FORBIDDEN,
            (
                "(Secret iris-tls may not be read by the operator; to allow it, run: kubectl -n "
                "team create role moorage-iris-tls --verb=get --resource=secrets "
                "--resource-name=iris-tls && kubectl -n team create rolebinding moorage-iris-tls "
                "--role=moorage-iris-tls --serviceaccount=moorage:moorage"
            ),
        ),
        ({"ca.crt": "-----BEGIN"}, "ca.crt of Secret iris-tls has no valid certificate in PEM"),
        ({"ca.crt": Authority("another CA").certificate}, "not among ca.crt of Secret iris-tls"),
    ],
)
async def test_an_unknown_ca_is_reported_with_what_is_trusted(
    issued: Issued, tmp_path: Path, secret: Mapping[str, str] | Unread, expected: str
) -> None:
    http = Cluster(iris_tls=secret).client()

    async with serving(issued.server_context(tmp_path)) as server:
        answer = await refused(http, target(server, access=TLS))

    assert (answer.verdict, answer.reason) == (None, AnswerReason.NOT_TRUSTED)
    assert expected in answer.message


async def test_the_operators_ca_file_is_trusted_if_the_secret_may_not_be_read(
    issued: Issued, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.crt"
    cluster = Cluster(iris_tls=FORBIDDEN)
    http = cluster.client(str(bundle))

    async with serving(issued.server_context(tmp_path)) as server:
        of = target(server, access=TLS)
        absent = await refused(http, of)
        bundle.write_text(Authority("another CA").certificate)
        other = await refused(http, of)
        bundle.write_text(issued.authority)
        cluster.now += AGAIN_SECONDS
        reply = await asked(http, of)

    assert absent.message == f"the operator's CAs in {bundle} cannot be read: FileNotFoundError"
    assert f"not among the operator's CAs in {bundle} (Secret iris-tls may not" in other.message
    assert isinstance(reply, Reply)


async def test_a_renewed_ca_is_read_after_the_first_refusal_and_the_old_one_stays_valid(
    issued: Issued, tmp_path: Path
) -> None:
    cluster = Cluster(iris_tls=issued.secret)
    renewed = Authority("new CA").issue(NAME)
    http = cluster.client()

    async with (
        serving(issued.server_context(tmp_path)) as before,
        serving(renewed.server_context(tmp_path)) as after,
    ):
        assert isinstance(await asked(http, target(before, access=TLS)), Reply)
        cluster.secrets["iris-tls"] = renewed.secret
        cluster.now += AGAIN_SECONDS
        assert isinstance(await asked(http, target(after, access=TLS)), Reply)
        assert isinstance(await asked(http, target(before, access=TLS)), Reply)

    assert cluster.reads == ["iris-tls", "iris-tls"]


async def test_a_corrected_secret_is_read_after_a_refusal(issued: Issued, tmp_path: Path) -> None:
    cluster = Cluster(iris_tls={"ca.crt": "no certificate"})
    http = cluster.client()

    async with serving(issued.server_context(tmp_path)) as server:
        of = target(server, access=TLS)
        assert "has no valid certificate" in (await refused(http, of)).message
        cluster.secrets["iris-tls"] = issued.secret
        cluster.now += AGAIN_SECONDS
        assert isinstance(await asked(http, of), Reply)


async def test_refusals_read_a_secret_at_most_every_few_seconds(
    authority: Authority, tmp_path: Path
) -> None:
    wrong = authority.issue("other.svc")
    cluster = Cluster(iris_tls=wrong.secret)
    http = cluster.client()

    async with serving(wrong.server_context(tmp_path)) as server:
        of = target(server, access=TLS)
        await asyncio.gather(*(refused(http, of) for _ in range(20)))
        cluster.now += AGAIN_SECONDS
        await asyncio.gather(*(refused(http, of) for _ in range(20)))

    assert len(cluster.reads) == 2


async def test_a_plain_server_is_reported_if_the_spec_sets_tls(issued: Issued) -> None:
    http = Cluster(iris_tls=issued.secret, iris_tokens={"a": "secret-token"}).client()
    heads: list[bytes] = []

    def answer(head: bytes) -> bytes:
        heads.append(head)
        return OK

    async with serving(None, answer) as server:
        found = await refused(http, target(server, access=BOTH))

    assert found.reason is AnswerReason.TLS_MISMATCH
    assert found.message == (
        f"spec.tls is set, but the server at {server.removeprefix('http://')} answers in "
        "plaintext: let it serve the certificate in /mnt/tls, or remove spec.tls"
    )
    assert heads
    assert not any(b"secret-token" in head for head in heads)


@pytest.mark.parametrize("access", [None, TOKEN])
async def test_a_tls_server_is_reported_if_the_spec_does_not_set_tls(
    issued: Issued, tmp_path: Path, access: Access | None
) -> None:
    http = Cluster(iris_tokens={"a": "t"}).client()

    async with serving(issued.server_context(tmp_path)) as server:
        found = await refused(http, target(server, access=access))

    assert found.reason is AnswerReason.TLS_MISMATCH
    assert "speaks TLS, but spec.tls is not set" in found.message


async def test_a_tls_alert_or_the_hint_of_a_go_server_is_recognized(
    issued: Issued, tmp_path: Path
) -> None:
    http = Cluster().client()

    async with byte_server(b"\x15\x03\x01\x00\x02\x02\x46", hold=False) as server:
        found = await refused(http, target(server))

    assert "speaks TLS, but spec.tls is not set" in found.message


@pytest.mark.parametrize(
    ("reply", "reason", "expected"),
    [
        (b"SSH-2.0-x\r\n", AnswerReason.TLS_MISMATCH, "does not complete the TLS handshake"),
        (b"\x16\x03\x03\x00\x04\xff\x00\x00\x00", AnswerReason.TLS_MISMATCH, "UNEXPECTED_MESSAGE"),
        (b"\x15\x03\x03\x00\x02\x02\x28", AnswerReason.REFUSED, "cannot connect to"),
        (b"", AnswerReason.REFUSED, "cannot connect to"),
    ],
)
async def test_a_broken_handshake_is_reported(
    issued: Issued, reply: bytes, reason: AnswerReason, expected: str
) -> None:
    http = Cluster(iris_tls=issued.secret).client()

    async with byte_server(reply, hold=False) as server:
        found = await refused(http, target(server, access=TLS))

    assert (found.verdict, found.reason) == (None, reason)
    assert expected in found.message


async def test_a_server_that_stalls_in_the_handshake_times_out(issued: Issued) -> None:
    http = Cluster(iris_tls=issued.secret).client()

    async with byte_server(b"\x16\x03\x03", hold=True) as server:
        found = await refused(http, target(server, access=TLS, timeout_seconds=0.2))

    assert found.reason is AnswerReason.TIMED_OUT


async def test_every_token_is_tried_and_the_accepted_one_comes_first_afterwards() -> None:
    cluster = Cluster(iris_tokens={"a": "one\n two \n", "b": "\nthree\nno token"})
    http = cluster.client()
    heads: list[bytes] = []
    answer = bearer("three")

    async with serving(None, lambda head: (heads.append(head), answer(head))[1]) as server:
        of = target(server, access=TOKEN)
        assert isinstance(await asked(http, of), Reply)
        assert isinstance(await asked(http, of), Reply)

    sent = [head.partition(b"Bearer ")[2].partition(b"\r\n")[0] for head in heads]
    assert sent == [b"one", b"two", b"three", b"three"]
    assert cluster.reads == ["iris-tokens"]


async def test_a_rotated_token_is_read_after_a_401() -> None:
    cluster = Cluster(iris_tokens={"a": "old"})
    http = cluster.client()

    async with serving(None, bearer("old")) as before, serving(None, bearer("new")) as after:
        assert isinstance(await asked(http, target(before, access=TOKEN)), Reply)
        cluster.secrets["iris-tokens"] = {"a": "new"}
        cluster.now += AGAIN_SECONDS
        assert isinstance(await asked(http, target(after, access=TOKEN)), Reply)
        # servers whose files the kubelet has not updated yet
        assert isinstance(await asked(http, target(before, access=TOKEN)), Reply)


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ({"a": "other"}, "it accepts none of the tokens in Secret iris-tokens"),
        ({"a": "\n"}, "Secret iris-tokens has no token: must have one per line"),
        (Unread("does not exist"), "Secret iris-tokens does not exist"),
        (
            FORBIDDEN,
            (
                "Secret iris-tokens may not be read by the operator; to allow it, run: kubectl -n "
                "team create role moorage-iris-tokens --verb=get --resource=secrets "
                "--resource-name=iris-tokens && kubectl -n team create rolebinding "
                "moorage-iris-tokens --role=moorage-iris-tokens "
                "--serviceaccount=moorage:moorage (docs/how-to/tls-and-tokens.md)"
            ),
        ),
    ],
)
async def test_a_missing_token_is_explained(
    secret: Mapping[str, str] | Unread, expected: str
) -> None:
    http = Cluster(iris_tokens=secret).client()

    async with serving(None, bearer("right")) as server:
        found = await refused(http, target(server, access=TOKEN))

    assert (found.verdict, found.reason) == (False, AnswerReason.UNAUTHORIZED)
    assert found.message == f"HTTP 401 from /v2: {expected}"


async def test_a_token_is_not_sent_to_a_server_that_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    heads: list[bytes] = []
    thief = Authority("thief").issue(NAME)
    http = Cluster(
        iris_tls=authority.issue(NAME).secret, iris_tokens={"a": "secret-token"}
    ).client()

    def answer(head: bytes) -> bytes:
        heads.append(head)
        return OK

    async with serving(thief.server_context(tmp_path), answer) as server:
        found = await refused(http, target(server, access=BOTH))

    assert found.reason is AnswerReason.NOT_TRUSTED
    assert heads == []
