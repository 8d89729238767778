"""Selects the store for a source."""

from collections.abc import Mapping
from dataclasses import replace

from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.source import (
    AzureSource,
    GcsSource,
    HttpsSource,
    HubSource,
    OciSource,
    S3Source,
    Source,
    parse_endpoint,
)
from moorage_runtime.fetch.stores.aws_keys import KeySource
from moorage_runtime.fetch.stores.azure import AzureStore
from moorage_runtime.fetch.stores.azure_token import AzureToken
from moorage_runtime.fetch.stores.gcs import GcsStore
from moorage_runtime.fetch.stores.google_token import GoogleToken
from moorage_runtime.fetch.stores.https_store import HttpsStore
from moorage_runtime.fetch.stores.hugging_face import HubStore
from moorage_runtime.fetch.stores.oci import OciStore
from moorage_runtime.fetch.stores.s3 import S3Store
from moorage_runtime.fetch.stores.store import Store
from moorage_runtime.fetch.web import Web

__all__ = ["make_store"]


def make_store(
    source: Source, web: Web, credentials: Credentials, environment: Mapping[str, str]
) -> Store:
    """The store; the URI takes precedence over the Secret.

    Raises:
        BadSource: A key of the Secret is invalid.
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
        case AzureSource():
            endpoint = _endpoint(credentials, environment, "AZURE_STORAGE_SERVICE_ENDPOINT")
            chosen = replace(source, endpoint=source.endpoint or endpoint)
            identity = AzureToken(credentials, environment, web)
            return AzureStore(chosen, web, credentials, identity)
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
    """The first of these that the Secret contains, otherwise the first that the cluster set for
    the pod.
    """
    values = [credentials.text(name) for name in names]
    values += [environment.get(name, "") for name in names]
    return next((value for value in values if value), "")
