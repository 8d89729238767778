"""What a valid spec with TLS or tokens leaves to its author; pure.

    lint --> **access_check**: a spec --> notes

A note does not fail the check.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moorage_cli.manifests.structural import Problem

__all__ = ["access_notes"]

# With these protocols no open path reports whether the model is ready.
ASK_WITH_TOKEN = ("GRPS", "TensorFlowServing", "OpenAI")


def access_notes(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """The notes on a spec that the schema accepts."""
    has_tls = bool(spec.get("tls"))
    if spec.get("access") and not has_tls:
        yield Problem(
            "spec.access",
            "without spec.tls, tokens cross the network in plaintext: set spec.tls, or encrypt "
            "the connections with a service mesh",
        )
    protocol = spec.get("protocol")
    if spec.get("access") and protocol in ASK_WITH_TOKEN:
        yield Problem(
            "spec.access",
            f"with protocol {protocol}, the operator needs a token even for readiness: grant it "
            f"get on Secret {spec['access']['tokenSecretName']}, as docs/how-to/tls-and-tokens.md "
            "shows",
        )
    if spec.get("route") and has_tls:
        yield Problem(
            "spec.route",
            "with spec.tls, the gateway must speak TLS to the model: create a BackendTLSPolicy "
            "for its Service with the CA and the host name of the certificate",
        )
