"""How a model is reached, from its spec, the Secrets that it names, and the command line.

`--ca-file` and `--token-file` take the place of the Secrets, which are then not read.
"""

import argparse
import base64
import binascii
from collections.abc import Mapping

from moorage_cli.ask.access import Access, Trust
from moorage_cli.commands.shell import ClusterLike
from moorage_cli.commands.texts import read_text
from moorage_cli.judge.model_view import ModelView
from moorage_cli.printing.failures import Failure, WrongUsage

__all__ = ["access_of", "access_of_files"]

CA_OPTION = "--ca-file"
CA_FILE = f"set {CA_OPTION}"


def access_of(cluster: ClusterLike, model: ModelView, given: argparse.Namespace) -> Access:
    """How a model of the cluster is reached.

    Raises:
        Failure: Its token cannot be read, or a file cannot.
        WrongUsage: `--ca-file` is set, but the model speaks plaintext.
    """
    if given.ca_file and not model.tls_secret:
        raise WrongUsage(
            f"--ca-file: {model.name} has no spec.tls, so it is queried in plaintext: omit it"
        )
    trust = _trust(cluster, model, given.ca_file) if model.tls_secret else None
    if given.token_file:
        token = _token_of_file(given.token_file)
    else:
        token = _token_of_secret(cluster, model) if model.token_secret else ""
    return Access(trust, token)


def access_of_files(given: argparse.Namespace, *, tls: bool) -> Access:
    """How to reach a server by its address, without a model of the cluster.

    Raises:
        Failure: A file cannot be read.
        WrongUsage: `--ca-file` is set, but the address is plaintext.
    """
    if given.ca_file and not tls:
        raise WrongUsage("--ca-file: requires an address with https:// or grpcs://")
    trust = _trust_of_file(given.ca_file, "") if given.ca_file else Trust(fix=CA_FILE)
    token = _token_of_file(given.token_file) if given.token_file else ""
    return Access(trust if tls else None, token)


def _trust(cluster: ClusterLike, model: ModelView, file: str) -> Trust:
    """A Secret that cannot be read matters only if the CA is private."""
    if file:
        return _trust_of_file(file, model.server_name)
    where = f"Secret {model.namespace}/{model.tls_secret}"
    try:
        found = _secret(cluster, model.namespace, model.tls_secret)
    except Failure as failure:
        fix = f"{failure}: {CA_FILE}, or ask an administrator for the right to get this Secret"
        return Trust(model.server_name, fix=fix)
    if found is None:
        return Trust(model.server_name, fix=f"{where} does not exist: {CA_FILE}")
    if authorities := found.get("ca.crt", "").strip():
        fix = f"{CA_FILE}, or correct the Secret"
        return Trust(model.server_name, authorities, f"ca.crt of {where}", fix)
    return Trust(model.server_name, fix=f"{where} has no ca.crt: {CA_FILE}")


def _trust_of_file(file: str, server_name: str) -> Trust:
    """The certificates of a file, which are checked before any request.

    Raises:
        Failure: It cannot be read, or has no valid certificate.
    """
    fix = "choose the CA that has issued it"
    authorities = read_text(file, CA_OPTION)
    if not authorities.strip():
        raise Failure(f"{CA_OPTION}: {file} is empty: must have a certificate in PEM")
    trust = Trust(server_name, authorities, f"the CAs of {file} ({CA_OPTION})", fix)
    try:
        trust.context()
    except Failure as failure:
        raise Failure(f"{CA_OPTION}: {file} has no valid certificate in PEM") from failure
    return trust


def _token_of_file(file: str) -> str:
    """The first token of a file.

    Raises:
        Failure: It cannot be read, or has none.
    """
    token = _first_token([read_text(file, "--token-file")])
    if not token:
        raise Failure(f"--token-file: {file} has no token: must have one in its first line")
    return token


def _token_of_secret(cluster: ClusterLike, model: ModelView) -> str:
    """The first token of a model's Secret, in the order of its keys.

    Raises:
        Failure: The Secret cannot be read, does not exist, or has no token.
    """
    where = f"Secret {model.namespace}/{model.token_secret}"
    try:
        found = _secret(cluster, model.namespace, model.token_secret)
    except Failure as failure:
        raise Failure(
            f"{failure}: {model.name} requires a token: set --token-file, or ask an administrator "
            "for the right to get this Secret"
        ) from failure
    if found is None:
        raise Failure(f"{where} does not exist: create it, or set --token-file")
    token = _first_token([found[key] for key in sorted(found)])
    if not token:
        raise Failure(f"{where} has no token: each value must have tokens, one per line")
    return token


def _first_token(texts: list[str]) -> str:
    for text in texts:
        for line in map(str.strip, text.splitlines()):
            # anything else does not fit into a header
            if line and line.isascii() and line.isprintable() and " " not in line:
                return line
    return ""


def _secret(cluster: ClusterLike, namespace: str, name: str) -> Mapping[str, str] | None:
    """The values of a Secret as text, or None if it does not exist."""
    body = cluster.objects.find("Secret", namespace, name)
    if body is None:
        return None
    values: dict[str, str] = {}
    for key, value in (body.get("data") or {}).items():
        try:
            values[key] = base64.b64decode(value).decode("utf-8", "replace")
        except (binascii.Error, TypeError, ValueError):
            continue
    return values
