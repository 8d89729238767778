"""Certificates of a private CA, as cert-manager writes them to a Secret."""

import datetime as dt
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, and the certificate of its CA."""

    certificate: str
    key: str = field(repr=False)
    authority: str

    @property
    def secret(self) -> dict[str, str]:
        """The data of a Secret of type kubernetes.io/tls."""
        return {"tls.crt": self.certificate, "tls.key": self.key, "ca.crt": self.authority}

    def server_context(self, folder: Path) -> ssl.SSLContext:
        """The context of a server; its files are written to the folder."""
        both = folder / f"{abs(hash(self.certificate))}.pem"
        both.write_text(self.certificate + self.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context


class Authority:
    """A private CA."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_now() - 2 * DAY)
            .not_valid_after(_now() + 2 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> str:
        """Its certificate in PEM."""
        return _pem(self._certificate)

    def issue(
        self,
        *names: str,
        since: dt.timedelta = -DAY,
        until: dt.timedelta = DAY,
    ) -> Issued:
        """Issue a certificate for these host names.

        Args:
            names: The names.
            since: When it becomes valid, from now.
            until: When it expires, from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_named(names[0]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_now() + since)
            .not_valid_after(_now() + until)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name) for name in names]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Issued(_pem(certificate), private.decode(), self.certificate)
