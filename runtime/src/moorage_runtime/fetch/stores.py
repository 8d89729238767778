"""Which store answers for which source."""

from collections.abc import Mapping
from dataclasses import replace

from moorage_runtime.fetch.aws_keys import KeySource
from moorage_runtime.fetch.credentials import Credentials
from moorage_runtime.fetch.gcs import GcsStore
from moorage_runtime.fetch.google_token import GoogleToken
from moorage_runtime.fetch.https_store import HttpsStore
from moorage_runtime.fetch.hub import HubStore
from moorage_runtime.fetch.oci import OciStore
from moorage_runtime.fetch.s3 import S3Store
from moorage_runtime.fetch.source import (
    GcsSource,
    HttpsSource,
    HubSource,
    OciSource,
    S3Source,
    Source,
    parse_endpoint,
)
from moorage_runtime.fetch.store import Store
from moorage_runtime.fetch.web import Web

__all__ = ["make_store"]


def make_store(
    source: Source, web: Web, credentials: Credentials, environment: Mapping[str, str]
) -> Store:
    """The store; what the URI says of it wins over what the Secret says.

    Raises:
        BadSource: A key of the Secret cannot be used.
    """
    match source:
        case HttpsSource():
            return HttpsStore(source, web, credentials)
        case S3Source():
            region = _first(credentials, environment, "AWS_REGION", "AWS_DEFAULT_REGION")
            endpoint = _endpoint(
                credentials, environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"
            )
            chosen = replace(
                source, region=source.region or region, endpoint=source.endpoint or endpoint
            )
            return S3Store(chosen, web, KeySource(credentials, environment, web))
        case GcsSource():
            return GcsStore(source, web, GoogleToken(credentials))
        case HubSource():
            endpoint = _endpoint(credentials, environment, "HF_ENDPOINT")
            chosen = replace(source, endpoint=source.endpoint or endpoint)
            return HubStore(chosen, web, credentials)
        case OciSource():
            return OciStore(source, web, credentials)


def _endpoint(credentials: Credentials, environment: Mapping[str, str], *names: str) -> str:
    text = _first(credentials, environment, *names)
    return parse_endpoint(text, f"the endpoint in {' or '.join(names)}") if text else ""


def _first(credentials: Credentials, environment: Mapping[str, str], *names: str) -> str:
    """The first that the Secret has, else the first that the cluster set for the pod."""
    values = [credentials.text(name) for name in names]
    values += [environment.get(name, "") for name in names]
    return next((value for value in values if value), "")
