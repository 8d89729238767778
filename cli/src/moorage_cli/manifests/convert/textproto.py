"""A reader for the text format of Protocol Buffers, without the schema of a message; pure.

text --> tokens --> **parse_text** --> fields with lists of values

The reader does not know which fields are repeated, so every field has a list. It refuses what it
does not know, and limits the depth and the number of values, because the text may be hostile.

Source: Protocol Buffers, "Text Format Language Specification".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Symbol", "TextError", "parse_text"]

MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_DIGITS = 64
Message = dict[str, list[Any]]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+|\#[^\n]*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?[fF]?
      |\.[0-9]+(?:[eE][+-]?[0-9]+)?[fF]?)(?![A-Za-z0-9_.]))
  | (?P<text>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
  | (?P<sign>[\[\]{}<>:,;./-])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SIMPLE = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"?": b"?", b"\\": b"\\", b"'": b"'", b'"': b'"',
}  # fmt: skip
_ENDS = {"{": "}", "<": ">"}


class TextError(ValueError):
    """Text that is not in the text format; the message names the line and what is expected."""


class Symbol(str):
    """A name as a value: one of an enum, or `true` and `false`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_text(text: str) -> Mapping[str, list[Any]]:
    """The fields of a message: numbers, strings, `Symbol`s and messages.

    Raises:
        TextError: The text is invalid, or exceeds a limit.
    """
    return _Reader(text).message("", 0)


class _Reader:
    """Reads tokens one after another, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)
        self._values = 0

    def message(self, end: str, depth: int) -> Message:
        """The fields up to the token that ends the message, which is read too."""
        if depth > MAX_DEPTH:
            raise self._error(f"messages are nested more than {MAX_DEPTH} deep")
        found: Message = {}
        while self._next.text != end or self._next.kind not in {"sign", "end"}:
            name = self._expect("name", "a field name" + (f" or {end!r}" if end else ""))
            found.setdefault(name.text, []).extend(self._field(depth))
            if self._next.kind == "sign" and self._next.text in ",;":
                self._read()
        self._read()
        return found

    def _field(self, depth: int) -> list[Any]:
        has_colon = self._is("sign", ":")
        if has_colon:
            self._read()
        if self._is("sign", "["):
            return self._list(depth, has_colon=has_colon)
        return [self._value(depth, has_colon=has_colon)]

    def _list(self, depth: int, *, has_colon: bool) -> list[Any]:
        self._read()
        found: list[Any] = []
        if self._is("sign", "]"):
            self._read()
            return found
        while True:
            found.append(self._value(depth, has_colon=has_colon))
            if self._is("sign", "]"):
                self._read()
                return found
            if not self._is("sign", ","):
                raise self._error("expected ',' or ']'")
            self._read()

    def _value(self, depth: int, *, has_colon: bool) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._error(f"it has more than {MAX_VALUES} values")
        token = self._next
        if token.kind == "sign" and token.text in _ENDS:
            self._read()
            return self.message(_ENDS[token.text], depth + 1)
        if not has_colon:
            raise self._error("expected ':' or '{' after a field name")
        if token.kind == "text":
            return self._string()
        is_negative = token.kind == "sign" and token.text == "-"
        if is_negative:
            self._read()
            token = self._next
        if token.kind == "number":
            self._read()
            value = _number(token)
            return -value if is_negative else value
        if token.kind == "name":
            self._read()
            return Symbol(f"-{token.text}" if is_negative else token.text)
        raise self._error("expected a value")

    def _string(self) -> str:
        """Adjacent strings are one string."""
        parts: list[bytes] = []
        line = self._next.line
        while self._next.kind == "text":
            parts.append(_unescaped(self._next))
            self._read()
        try:
            return b"".join(parts).decode()
        except UnicodeDecodeError as error:
            raise TextError(f"line {line}: the string is not UTF-8") from error

    def _expect(self, kind: str, words: str) -> _Token:
        if self._next.kind != kind:
            raise self._error(f"expected {words}")
        return self._read()

    def _read(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _is(self, kind: str, text: str) -> bool:
        return self._next.kind == kind and self._next.text == text

    def _error(self, words: str) -> TextError:
        text = self._next.text
        short = text if len(text) <= 40 else f"{text[:37]}..."
        got = f"got {short!r}" if text else "got the end of the text"
        return TextError(f"line {self._next.line}: {words}, {got}")


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TextError(f"line {line}: {text[at : at + 1]!r} is not allowed here")
        kind = str(found.lastgroup)
        if kind != "space":
            yield _Token(kind, found[0], line)
        line += found[0].count("\n")
        at = found.end()
    yield _Token("end", "", line)


def _number(token: _Token) -> int | float:
    text = token.text
    if len(text) > MAX_DIGITS:
        raise TextError(f"line {token.line}: a number has more than {MAX_DIGITS} characters")
    if text[:2].lower() == "0x":
        return int(text, 16)
    if text.isdecimal():
        is_octal = len(text) > 1 and text[0] == "0"
        if is_octal and not re.fullmatch(r"[0-7]+", text):
            raise TextError(f"line {token.line}: {text!r} is not an octal number")
        return int(text, 8 if is_octal else 10)
    return float(text.rstrip("fF"))


def _unescaped(token: _Token) -> bytes:
    def replaced(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if code in _SIMPLE:
            return _SIMPLE[code]
        if code[:1] in b"xX" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code[:1] in b"uU" and len(code) > 1:
            return _character(token, int(code[1:], 16))
        if code[:1] in b"01234567" and int(code, 8) < 256:
            return bytes([int(code, 8)])
        raise TextError(f"line {token.line}: the escape '\\{code.decode('latin-1')}' is unknown")

    try:
        return _ESCAPE.sub(replaced, token.text[1:-1].encode())
    except UnicodeEncodeError as error:
        raise TextError(f"line {token.line}: the string is not UTF-8") from error


def _character(token: _Token, code: int) -> bytes:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise TextError(f"line {token.line}: U+{code:X} is not a character")
    return chr(code).encode()
