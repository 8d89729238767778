"""What the operator knows of the Secrets of secured servers: trusted CAs, and bearer tokens.

    Access (names) --> Credentials --> Secured (context), tokens --> http_client, grpc_channels
                          |  ^
                  ReadSecret  `-- renew: a certificate or a token was refused

A Secret is read when a query first needs it, again after a refusal, and every few minutes. So a
renewed certificate or a rotated token needs no restart. The previous content stays valid for a
while, because the kubelet updates the files of a server a minute after the Secret has changed. Of
a TLS Secret only `ca.crt` is kept, never the key. Nothing here is logged.
"""

import asyncio
import pathlib
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from moorage_operator.values.plan import Access
from moorage_operator.values.secret_content import ReadSecret, Unread, read_none

from .certificates import Certificates
from .tls import NotTrusted, Secured, make_context

__all__ = ["Credentials", "grant_sentence"]

FRESH_SECONDS = 300.0
"""How long a Secret is used before it is read again."""

AGAIN_SECONDS = 2.0
"""The shortest time between two reads of a Secret, however many queries are refused."""

PREVIOUS_SECONDS = 600.0
"""How long the previous content of a changed Secret stays valid."""

READS_A_SECOND = 20
"""The limit of first reads and of reads after a refusal, which queries wait for."""

BUSY_SECONDS = 1.0
"""The longest wait for the turn of a read after a refusal."""

ROUTINE_READS_A_SECOND = 4
"""The limit of all other reads. With more Secrets, the content is used for longer."""

UNUSED_SECONDS = 1800.0
"""How long an unused Secret is kept: longer than any interval between polls."""

TOKENS = 8
"""The number of tokens that are kept; an installation rotates between two."""

CONTEXTS = 256
"""The number of kept TLS contexts; each takes 20 KiB."""

DOCS = "docs/how-to/tls-and-tokens.md"


def grant_sentence(access: Access, secrets: tuple[str, ...], reader: str) -> str:
    """Say how the administrator of a namespace lets the operator read these Secrets."""
    account = reader.removeprefix("system:serviceaccount:")
    subject = f"--user={reader}" if account == reader else f"--serviceaccount={account}"
    named = " ".join(f"--resource-name={name}" for name in secrets)
    role = f"moorage-{secrets[0]}"
    return (
        f"to allow it, run: kubectl -n {access.namespace} create role {role} --verb=get "
        f"--resource=secrets {named} && kubectl -n {access.namespace} create rolebinding {role} "
        f"--role={role} {subject} ({DOCS})"
    )


@dataclass(frozen=True, slots=True)
class _Content:
    """The used part of a Secret: PEM texts or tokens; empty with the reason in `unread`."""

    parts: tuple[str, ...] = ()
    unread: Unread | None = None


@dataclass(slots=True)
class _Kept:
    """A Secret between its reads.

    Attributes:
        content: The last content; None before the first read.
        read_at: When it was read.
        used_at: When a query needed it.
        previous: The parts of the previous content, valid until `previous_until`.
        favorite: The token that a server accepted last.
        reading: The read in flight.
    """

    content: _Content | None = None
    read_at: float = 0.0
    used_at: float = 0.0
    previous: tuple[str, ...] = ()
    previous_until: float = 0.0
    favorite: str = ""
    reading: asyncio.Task[None] | None = None


_Key = tuple[str, str, str]  # the role, the namespace and the name


class Credentials:
    """Trusted CAs and tokens, by the names of their Secrets.

    Args:
        read: Reads a Secret.
        clock: Returns monotonic seconds.
        ca_file: CAs for models whose Secret has none or may not be read; the system's if empty.

    Attributes:
        certificates: The expiry of the certificates that were verified.
    """

    def __init__(
        self,
        read: ReadSecret = read_none,
        clock: Callable[[], float] = time.monotonic,
        *,
        ca_file: str = "",
    ) -> None:
        self.certificates = Certificates(clock)
        self._read_secret = read
        self._clock = clock
        self._ca_file = ca_file
        self._kept: dict[_Key, _Kept] = {}
        self._contexts: OrderedDict[tuple[str, ...], ssl.SSLContext] = OrderedDict()
        self._bundle_text = ""
        self._bundle_at = 0.0
        self._next_read = 0.0
        self._next_routine = 0.0

    async def secured(self, access: Access, protocol: str) -> tuple[Secured, ...]:
        """Return how to connect, in the order to try; () for plaintext.

        After a renewal, both CAs are valid for a while. One context cannot hold them, because
        OpenSSL takes the first CA with the name of the issuer, and both may have the same name.

        Args:
            access: The names.
            protocol: The protocol to offer with ALPN: http/1.1 or h2.

        Raises:
            NotTrusted: The Secret or the CA file has no valid certificate.
        """
        if not access.tls_secret:
            return ()
        kept = await self._known(_trust_key(access))
        content = kept.content or _Content()
        own = f"ca.crt of Secret {access.tls_secret}"
        if content.parts:
            found = [self._made(content.parts, protocol, access, own)]
            former = self._previous(kept)
            with suppress(NotTrusted):  # it may have been invalid, and then corrected
                found += [self._made(former, protocol, access, own)] if former else []
            return tuple(found)
        without = f"Secret {access.tls_secret} has no ca.crt"
        if content.unread:
            without = f"Secret {access.tls_secret} {content.unread.why}"
            if content.unread.reader:
                secrets = tuple(filter(None, (access.tls_secret, access.token_secret)))
                without += "; " + grant_sentence(access, secrets, content.unread.reader)
        if not self._ca_file:
            trusts = f"the CAs of the operator's image ({without})"
            return (self._made((), protocol, access, trusts),)
        trusts = f"the operator's CAs in {self._ca_file}"
        bundle = self._bundle(trusts)
        return (self._made((bundle,), protocol, access, f"{trusts} ({without})"),)

    async def more_tokens(self, access: Access, tried: Collection[str]) -> tuple[str, ...]:
        """Return tokens that are new since the refused ones; read the Secret again if need be."""
        if not access.token_secret:
            return ()
        # Another query may have read the changed Secret meanwhile.
        found = [token for token in await self.tokens(access) if token not in tried]
        if not found:
            await self._renew(_token_key(access))
            found = [token for token in await self.tokens(access) if token not in tried]
        return tuple(filter(None, found))

    async def tokens(self, access: Access) -> tuple[str, ...]:
        """Return the tokens to try until one is accepted, the last accepted one first.

        Without a token, return an empty one, because some paths need none.
        """
        if not access.token_secret:
            return ("",)
        kept = await self._known(_token_key(access))
        found = (kept.content or _Content()).parts + self._previous(kept)
        favorite = (kept.favorite,) if kept.favorite in found else ()
        return tuple(dict.fromkeys(favorite + found)) or ("",)

    def accepted(self, access: Access, token: str) -> None:
        """Remember the token that a server has accepted."""
        if kept := self._kept.get(_token_key(access)):
            kept.favorite = token

    def missing_token(self, access: Access) -> str:
        """Say why the operator has no token that is accepted, as the end of a sentence."""
        if not access.token_secret:
            return "set spec.access.tokenSecretName to a Secret with a token"
        name = access.token_secret
        kept = self._kept.get(_token_key(access))
        content = (kept.content if kept else None) or _Content()
        if content.unread is None:
            if content.parts:
                return f"it accepts none of the tokens in Secret {name}"
            return f"Secret {name} has no token: must have one per line"
        sentence = f"Secret {name} {content.unread.why}"
        if not content.unread.reader:
            return sentence
        secrets = tuple(filter(None, (access.tls_secret, name)))
        return f"{sentence}; {grant_sentence(access, secrets, content.unread.reader)}"

    async def renew_trust(self, access: Access) -> None:
        """Read the TLS Secret again after a refusal."""
        if access.tls_secret:
            await self._renew(_trust_key(access))

    async def close(self) -> None:
        """Cancel all reads."""
        tasks = [kept.reading for kept in self._kept.values() if kept.reading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _known(self, key: _Key) -> _Kept:
        """Return a Secret that has been read; an old one is read again in the background."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None:
            self._drop_unused(now)
            kept = self._kept[key] = _Kept()
        kept.used_at = now
        if kept.content is None:
            await self._join(key, kept)
        elif self._is_due(kept, now):
            self._next_routine = now + 1 / ROUTINE_READS_A_SECOND
            self._start(kept, self._read(key, kept))
        return kept

    def _is_due(self, kept: _Kept, now: float) -> bool:
        is_old = now - kept.read_at >= FRESH_SECONDS
        return is_old and kept.reading is None and now >= self._next_routine

    async def _renew(self, key: _Key) -> None:
        kept = self._kept.get(key)
        if kept is None:
            return
        now = self._clock()
        # With a long queue of reads, the next query tries again instead of waiting.
        is_busy = self._next_read - now > BUSY_SECONDS
        if now - kept.read_at >= AGAIN_SECONDS and (kept.reading or not is_busy):
            await self._join(key, kept)

    async def _join(self, key: _Key, kept: _Kept) -> None:
        """Wait for the read of a Secret, which all queries share."""
        if kept.reading is None:
            now = self._clock()
            turn = max(now, self._next_read)
            self._next_read = turn + 1 / READS_A_SECOND
            self._start(kept, self._read_after(turn - now, key, kept))
        if kept.reading is not None:
            await asyncio.shield(kept.reading)

    def _start(self, kept: _Kept, reading: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(reading)
        kept.reading = task
        task.add_done_callback(lambda _: setattr(kept, "reading", None))

    async def _read_after(self, seconds: float, key: _Key, kept: _Kept) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)
        await self._read(key, kept)

    async def _read(self, key: _Key, kept: _Kept) -> None:
        role, namespace, name = key
        found = await self._read_secret(namespace, name)
        content = _Content(unread=found) if isinstance(found, Unread) else _PARSERS[role](found)
        kept.read_at = now = self._clock()
        before = kept.content
        if before and before.parts and content.unread and not content.unread.reader:
            return  # the API server did not answer, or the Secret is being replaced
        if before and before.parts and before.parts != content.parts:
            kept.previous, kept.previous_until = before.parts, now + PREVIOUS_SECONDS
        kept.content = content

    def _bundle(self, trusts: str) -> str:
        """Return the text of the CA file, which may have been replaced.

        Raises:
            NotTrusted: It cannot be read.
        """
        now = self._clock()
        if not self._bundle_text or now - self._bundle_at >= AGAIN_SECONDS:
            try:
                text = pathlib.Path(self._ca_file).read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise NotTrusted(f"{trusts} cannot be read: {type(error).__name__}") from error
            if text != self._bundle_text:
                self._bundle_text = text
            self._bundle_at = now
        return self._bundle_text

    def _previous(self, kept: _Kept) -> tuple[str, ...]:
        return kept.previous if self._clock() < kept.previous_until else ()

    def _drop_unused(self, now: float) -> None:
        oldest = next(iter(self._kept.items()), None)
        if oldest and now - oldest[1].used_at > UNUSED_SECONDS and oldest[1].reading is None:
            self._kept = {
                key: kept
                for key, kept in self._kept.items()
                if kept.reading or now - kept.used_at <= UNUSED_SECONDS
            }

    def _made(
        self, authorities: tuple[str, ...], protocol: str, access: Access, trusts: str
    ) -> Secured:
        key = (protocol, *authorities)
        context = self._contexts.pop(key, None)
        if context is None:
            try:
                context = make_context(authorities, protocol)
            except ssl.SSLError as error:
                raise NotTrusted(f"{trusts} has no valid certificate in PEM") from error
        self._contexts[key] = context
        while len(self._contexts) > CONTEXTS:
            self._contexts.popitem(last=False)
        saw = partial(self.certificates.saw, access.namespace, access.tls_secret)
        return Secured(context, access.server_name, trusts, saw)


def _trust_key(access: Access) -> _Key:
    return "trust", access.namespace, access.tls_secret


def _token_key(access: Access) -> _Key:
    return "token", access.namespace, access.token_secret


def _parse_trust(values: Mapping[str, bytes]) -> _Content:
    text = values.get("ca.crt", b"").decode("ascii", "replace").strip()
    return _Content((text,) if text else ())


def _parse_tokens(values: Mapping[str, bytes]) -> _Content:
    """Return the tokens of all clients, by key; only those that fit into a header."""
    lines = [
        line.strip()
        for key in sorted(values)
        for line in values[key].decode("ascii", "replace").splitlines()
    ]
    found = [line for line in lines if line.isascii() and line.isprintable() and " " not in line]
    return _Content(tuple(dict.fromkeys(filter(None, found)))[:TOKENS])


_PARSERS: Mapping[str, Callable[[Mapping[str, bytes]], _Content]] = {
    "trust": _parse_trust,
    "token": _parse_tokens,
}
