"""The token of an Azure application."""

import json
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from moorage_runtime.fetch.decide.credentials import PREFIX, Credentials
from moorage_runtime.fetch.stores.azure_token import AzureToken
from moorage_runtime.fetch.web import Web
from support.canned_server import answering, http_answer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_token_with_an_endless_lifetime_is_renewed_after_a_day():
    answer = json.dumps({"access_token": "t", "expires_in": 10**17}).encode()
    with answering(http_answer(HTTPStatus.OK, answer)) as server:
        secret = {
            f"{PREFIX}AZURE_CLIENT_ID": "client",
            f"{PREFIX}AZURE_TENANT_ID": "tenant",
            f"{PREFIX}AZURE_CLIENT_SECRET": "secret",
            f"{PREFIX}AZURE_AUTHORITY_HOST": f"http://127.0.0.1:{server.port}",
        }
        token = AzureToken(Credentials(secret), {}, Web())

        assert token.headers(NOW) == {"Authorization": "Bearer t"}
        token.headers(NOW + timedelta(hours=23))
        assert len(server.asked) == 1
        token.headers(NOW + timedelta(hours=25))
        assert len(server.asked) == 2
