"""The ways in which a command ends early: a sentence for people, and an exit status; pure."""

__all__ = ["Failure", "WrongUsage", "reason_of"]


class Failure(Exception):
    """What failed and how to fix it; printed without a stack trace."""


class WrongUsage(Failure):
    """Arguments that are invalid together, or that only the command itself can check."""


def reason_of(error: BaseException) -> str:
    """The operating system's words for an error, without error numbers and Python class names.

    Libraries wrap the error of a socket several times, so the innermost one is looked for.
    """
    if isinstance(error, Failure):
        return str(error)
    seen: set[int] = set()
    inner: BaseException | None = error
    found = ""
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        if isinstance(inner, UnicodeDecodeError):
            return "the text is not UTF-8"
        if isinstance(inner, TimeoutError):
            return "timed out"
        if isinstance(inner, OSError) and inner.strerror:
            found = getattr(inner, "verify_message", "") or inner.strerror
        wrapped = getattr(inner, "reason", None)
        is_wrapped = isinstance(wrapped, BaseException)
        inner = wrapped if is_wrapped else inner.__cause__ or inner.__context__
    words = found or str(error) or type(error).__name__
    is_acronym = words[1:2].isupper()
    return words if is_acronym else words[:1].lower() + words[1:]
