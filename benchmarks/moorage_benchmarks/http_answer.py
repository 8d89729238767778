"""Where an HTTP/1.1 answer ends, for a client that only counts them. Pure."""

HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


def answer_bytes(data: bytes) -> int:
    """The size of the answer that begins here, or 0 while its head is not complete.

    Raises:
        ValueError: The status is not 200, or the body has no Content-Length.
    """
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = data[:end]
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ValueError(f"the server answered {data[:500]!r}")
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(_LENGTH):
            return end + len(HEAD_END) + int(line[len(_LENGTH) :])
    raise ValueError(f"the answer has no Content-Length: {head!r}")
