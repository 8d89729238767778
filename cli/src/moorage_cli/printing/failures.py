"""The ways in which a command ends early: a sentence for people, and an exit status; pure."""

from collections.abc import Iterator

__all__ = ["Failure", "WrongUsage", "causes_of", "reason_of"]


class Failure(Exception):
    """What failed and how to fix it; printed without a stack trace."""


class WrongUsage(Failure):
    """Arguments that are invalid together, or that only the command itself can check."""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """An error and what it wraps: libraries wrap the error of a socket several times."""
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        wrapped = (getattr(inner, "reason", None), *inner.args)
        within = next((each for each in wrapped if isinstance(each, BaseException)), None)
        inner = within or inner.__cause__ or inner.__context__


def reason_of(error: BaseException) -> str:
    """The operating system's words for an error, without error numbers and Python class names."""
    if isinstance(error, Failure):
        return str(error)
    found = ""
    for inner in causes_of(error):
        if isinstance(inner, UnicodeDecodeError):
            return "the text is not UTF-8"
        if isinstance(inner, TimeoutError):
            return "timed out"
        if isinstance(inner, OSError) and inner.strerror:
            found = getattr(inner, "verify_message", "") or inner.strerror
    words = found or str(error) or type(error).__name__
    is_acronym = words[1:2].isupper()
    return words if is_acronym else words[:1].lower() + words[1:]
