"""One text for one value: canonical JSON as RFC 8785 has it, and what is hashed of it."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

# Quick, and the same bytes as RFC 8785 asks for, but for three things: numbers from 2**53 on, which `plain` turns into
# text, those from 1e-6 to 1e-5, and names with characters from U+E000 on, which UTF-16 sorts otherwise than UTF-8.
_quick = msgspec.json.Encoder(order="sorted").encode
_FROM_U_E000 = re.compile(rb"[\xee-\xf4]")
_UNSENDABLE = re.compile("[\ud800-\udfff]")


def canonical(value: Any) -> bytes:
    """The value as canonical JSON; its numbers are such as `facts.plain` lets pass.

    UTF-8 cannot carry lone surrogates: each becomes U+FFFD.
    """
    try:
        text: bytes = _quick(value)
    except UnicodeEncodeError:
        return canonical(_sendable(value))
    differs = b"e-6" in text or not (text.isascii() or _FROM_U_E000.search(text) is None)
    return strictly(msgspec.json.decode(text)) if differs else text


def strictly(value: Any) -> bytes:
    """The value as canonical JSON, whatever its numbers; raises ValueError where RFC 8785 has no text for it."""
    import rfc8785  # fifty times slower, so it is asked only where the quick way may differ

    return rfc8785.dumps(value)


def sha256(text: bytes) -> str:
    """The SHA-256 of the bytes, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return _UNSENDABLE.sub("\ufffd", value)
        case dict():
            return {_sendable(key): _sendable(each) for key, each in value.items()}
        case list() | tuple():
            return [_sendable(each) for each in value]
        case msgspec.Raw():
            return value
        case _:
            return value
