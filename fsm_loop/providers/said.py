"""What a provider says of a failure, wherever in its body it stands, and fit to be kept: short, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import frozen

NO_STATUS = 0  # told inside a reply whose own status was fine
MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 8000  # of all that is looked through for known words
MAX_PAGE_CHARS = 16_000  # of a page whose markup is taken away
MAX_DEPTH = 8
HIDDEN = "***"

_FIRST_ERROR, _LAST_ERROR = 400, 599
# What a model wrote or a user asked is no word of the provider's on the failure.
_ECHOES = frozenset({"failed_generation", "input", "ctx", "prompt", "messages"})
_MESSAGES = ("message", "detail", "error_description", "error_msg", "msg", "error", "title", "errors")
_STATUSES = ("status_code", "status", "code", "http_status")
_VAGUE = re.compile(r"provider returned error|upstream error|error|unknown error|bad request|\s*", re.IGNORECASE)

_TITLE_BEGINS, _TITLE_ENDS = re.compile(r"<title[^>]{0,200}>", re.IGNORECASE), re.compile("</title>", re.IGNORECASE)
_UNSEEN_BEGINS = re.compile(r"<(script|style)\b", re.IGNORECASE)
_UNSEEN_ENDS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("script", "style")}
_TAG = re.compile(r"<[^<>]{0,2000}>")
_SECRETS = (
    re.compile(r"(?i)(bearer|basic)\s+[^\s'\"]+"),
    re.compile(r"(?i)((?:proxy-)?authorization|x-api-key|api-key|api_key)(['\"]?\s*[:=]\s*b?['\"]?)[^\s'\",;]+"),
    re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"),
    re.compile(r"\b(sk-)[A-Za-z0-9_-]{8,}"),
)
_SHORTEST_SECRET = 4


@frozen
class Said:
    """A failure in the provider's own words; `text` is all of them in lower case, to be looked through."""

    status: int
    message: str
    code: str = ""
    parameter: str = ""
    text: str = ""


def said_in(body: Any, status: int = NO_STATUS) -> Said:
    """What this body says, parsed or not; the status of a body that came with none is the one that it names."""
    body = _unwrapped(body)
    error = _error_in(body)
    message = _message(body)[:MAX_TEXT_CHARS]
    code = _code(error)[:MAX_MESSAGE_CHARS]
    text = " ".join((message, code, *_strings(body)))
    return Said(status or _status(error), message, code, _parameter(error), text[:MAX_TEXT_CHARS].lower())


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets, and without whatever looks like a credential."""
    for secret in sorted((each for each in map(str.strip, secrets)), key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    bearer, header, password, key = _SECRETS
    text = header.sub(rf"\1\2{HIDDEN}", bearer.sub(rf"\1 {HIDDEN}", text))
    return key.sub(rf"\1{HIDDEN}", password.sub(rf"\1{HIDDEN}@", text))


def passwords(*urls: str) -> Iterable[str]:
    """The passwords in these addresses, as they stand there and as they are meant."""
    return (form for url in urls if (word := urlsplit(url).password) for form in (word, unquote(word)))


def short(text: str) -> str:
    """The text on one line, and not a long one."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[: MAX_MESSAGE_CHARS - 4]} ..."


def _unwrapped(body: Any) -> Any:
    """The body as JSON where it is JSON, out of the list that Google puts it into."""
    if isinstance(body, str):
        body = _json_of(body)
    if isinstance(body, list) and body:
        body = body[0]
    return body


def _json_of(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text


def _error_in(body: Any) -> Mapping[str, Any]:
    """The object that describes the failure: the body's `error`, or the body."""
    if not isinstance(body, dict):
        return {}
    error = _unwrapped(body.get("error"))
    if isinstance(error, dict):
        return error
    return body


def _message(body: Any, depth: int = 0) -> str:
    """The most telling message: one that says nothing gives way to one further in."""
    body = _unwrapped(body)
    if depth > MAX_DEPTH or body is None:
        return ""
    if isinstance(body, str):
        return _plain(body)
    if not isinstance(body, dict):
        return ""
    found = [text for name in _MESSAGES if (text := _message(body.get(name), depth + 1))]
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        found.append(_message(metadata.get("raw"), depth + 1))
    telling = [text for text in found if text and not _VAGUE.fullmatch(text)]
    return next(iter(telling or found), "")


def _plain(text: str) -> str:
    """The text of a page without its markup: the title where there is one."""
    if "<" not in text:
        return text
    return _TAG.sub(" ", _seen((_title(text) or text)[:MAX_PAGE_CHARS])).strip()


def _seen(text: str) -> str:
    """The page without what is not shown of it. As in a title: an end is looked for once, however often one begins."""
    parts, at = [], 0
    while begin := _UNSEEN_BEGINS.search(text, at):
        end = _UNSEEN_ENDS[begin[1].lower()].search(text, begin.end())
        if end is None:
            break
        parts.append(text[at : begin.start()])
        at = end.end()
    return " ".join((*parts, text[at:]))


def _title(text: str) -> str:
    """What the page is called; empty where it does not say."""
    begin = _TITLE_BEGINS.search(text)
    end = begin and _TITLE_ENDS.search(text, begin.end())
    return text[begin.end() : end.start()] if begin and end else ""


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """All that the body says, names of its fields left out."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, str):
        yield _plain(value)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in _ECHOES:
                yield from _strings(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)


def _code(error: Mapping[str, Any]) -> str:
    """The provider's own word for it: its code, else its type."""
    words = (error.get(name) for name in ("code", "type", "status"))
    return next((word for word in words if isinstance(word, str) and word and not word.isdecimal()), "")


def _status(error: Mapping[str, Any]) -> int:
    for name in _STATUSES:
        value = error.get(name)
        number = int(value[:4]) if isinstance(value, str) and value.isdecimal() else value  # more digits are no status
        if isinstance(number, int) and _FIRST_ERROR <= number <= _LAST_ERROR:
            return number
    return NO_STATUS


def _parameter(error: Mapping[str, Any]) -> str:
    """The parameter that the failure is about; FastAPI tells it as a place in the body."""
    named = error.get("param")
    if isinstance(named, str):
        return named
    match error.get("detail"):
        case [{"loc": ["body", *place]}, *_]:
            return ".".join(str(each) for each in place)
    return ""
