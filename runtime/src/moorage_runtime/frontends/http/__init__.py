"""The HTTP listener: connection handling and the plain request and response values."""  # noqa: A005 - a part of frontends, never imported by its last name alone
