"""The failures of a download, each with one message for the user.

    FetchError
      BadSource      the URI, an option or a credential is invalid
      NotFound       the store has no such bucket, repository, object or revision
      Denied         the store refuses access
      Changed        the object changed during the download
      Corrupt        the received bytes do not match the expected digest or format
      NoSpace        the volume is too small
      Unreachable    no response, or not one of a store; the only failure that is retried

The message names the object, the response and the fix. It never contains a credential or the query
of a URL.
"""


class FetchError(Exception):
    """The model cannot be fetched; the message says why."""


class BadSource(FetchError):
    """The URI, an option or a credential is invalid."""


class NotFound(FetchError):
    """The object does not exist."""


class Denied(FetchError):
    """The store refuses access."""


class Changed(FetchError):
    """The object changed during the download."""


class Corrupt(FetchError):
    """The bytes do not match the expected digest or format."""


class NoSpace(FetchError):
    """The volume is too small for the model."""


class Unreachable(FetchError):
    """No usable response; a retry may help.

    Attributes:
        wait_seconds: How long the server asks to wait, otherwise 0.
    """

    def __init__(self, sentence: str, wait_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.wait_seconds = wait_seconds
