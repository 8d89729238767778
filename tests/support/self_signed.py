"""A self-signed certificate for an address, and the key of a Secret that trusts it."""

import subprocess
from pathlib import Path


def self_signed(folder: Path, address: str) -> Path:
    """Key and certificate of an IP address in one file of the folder."""
    both, key = folder / "both.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", f"/CN={address}"]
    command += ["-addext", f"subjectAltName=IP:{address}", "-keyout", key, "-out", both]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(both.read_text() + key.read_text())
    return both


def trusting(certificate: Path) -> dict[str, str]:
    """A Secret's data by which `moorage-fetch` trusts the server of this certificate."""
    return {"ca.crt": certificate.read_text().partition("-----BEGIN PRIVATE KEY")[0]}
