"""What a download can fail of, each as one sentence for the user.

    FetchError
      BadSource      the URI, an option or a credential cannot be used as written
      NotFound       the store has no such bucket, repository, object or revision
      Denied         the store knows who asks, or nobody, and says no
      Changed        the object is another than it was when the download began
      Corrupt        bytes arrived that are not those that the store or the user promised
      NoSpace        the volume is too small
      Unreachable    nobody answers, or not as a store does; the only one that is tried again

The sentence names what was asked for, what came, and what to change. It never has a credential or
the query of a URL in it.
"""


class FetchError(Exception):
    """The model cannot be fetched; the text says why."""


class BadSource(FetchError):
    """The URI, an option or a credential cannot be used."""


class NotFound(FetchError):
    """The store does not have it."""


class Denied(FetchError):
    """The store refuses."""


class Changed(FetchError):
    """The object changed while it was downloaded."""


class Corrupt(FetchError):
    """The bytes are not those that were promised."""


class NoSpace(FetchError):
    """The volume cannot hold the model."""


class Unreachable(FetchError):
    """No usable answer; trying again may help.

    Attributes:
        wait_seconds: How long the server asks to wait, 0 where it says nothing.
    """

    def __init__(self, sentence: str, wait_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.wait_seconds = wait_seconds
