"""Whatever fails on the way to a provider, as a fault in our words: two tables, each read from the top.

`RULES` are for what a provider says, `EXCEPTIONS` for what SDKs, aiohttp, httpx, httpx2, ssl and the system raise. The
first line that fits decides, so what is more special stands above what is more general, and each line says why it is
there.
Exceptions are known by their names, so that nothing has to be installed to be recognised.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from attrs import evolve

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.providers import wording as w
from fsm_loop.providers.said import NO_STATUS, Said, redacted, said_in, short
from fsm_loop.providers.waits import Now, wait_of

K = FaultKind
HEADERS_WITH_ID = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
SMALLEST_OUTPUT_TOKENS = 256  # an output limit below it helps nobody: the prompt is too long then
MAX_CHAIN = 16
LONGEST_NUMBER = 18  # digits of a limit that is told
TOO_LARGE = 413


class Rule(NamedTuple):
    """With one of these statuses (any, where there are none) and these words (none needed likewise) it is this kind."""

    kind: FaultKind
    statuses: frozenset[int]
    words: re.Pattern[str] | None
    because: str

    def fits(self, said: Said) -> bool:
        """Whether what was said is of this rule."""
        if self.statuses and said.status not in self.statuses:
            return False
        return self.words is None or self.words.search(said.text) is not None


def _of(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)


ANY: frozenset[int] = frozenset()
# Under these, servers tell what is wrong with the request itself; many do so under a 500, or inside a stream.
ASKED = _of(NO_STATUS, 400, 404, 413, 415, 422, 500, 501, 502, 503)
BUSY = _of(NO_STATUS, 400, 403, 429, 500, 502, 503, 529)
MONEY = _of(NO_STATUS, 400, 402, 403, 404, 429)
ALL_3XX, ALL_4XX, ALL_5XX = (frozenset(range(first, first + 100)) for first in (300, 400, 500))

# fmt: off
RULES: tuple[Rule, ...] = (
    #    kind                     statuses                   words             because
    Rule(K.REFUSED,               ANY,                       w.REFUSED,        "a refusal is for good whatever the status, and its text quotes words of any other line"),
    Rule(K.ACCESS_DENIED,         _of(404),                  w.DATA_POLICY,    "an aggregator hides models that the account's privacy settings exclude"),
    Rule(K.OUTPUT_LIMIT_TOO_HIGH, MONEY,                     w.CAN_AFFORD,     "the credit buys a shorter reply; before the line on money"),
    Rule(K.CONTEXT_TOO_LONG,      _of(NO_STATUS, 413, 429),  w.ABOVE_A_MINUTE, "one request above the limit of a minute never fits; before the lines on rates"),
    Rule(K.RATE_LIMITED,          _of(NO_STATUS, 429),       w.COMES_BACK,     "a quota that comes back by itself is a rate, though Google words it as money"),
    Rule(K.QUOTA_SPENT,           MONEY,                     w.MONEY,          "money does not come back by waiting"),
    Rule(K.CREDENTIAL_EXPIRED,    _of(401),                  None,             "whoever is not known may be known with a fresh key"),
    Rule(K.CREDENTIAL_EXPIRED,    _of(NO_STATUS, 400, 403),  w.CREDENTIAL,     "some say 400 or 403 where they mean 401"),
    Rule(K.OVERLOADED,            BUSY,                      w.OVERLOADED,     "the provider's own state, not this account's rate"),
    Rule(K.RATE_LIMITED,          BUSY,                      w.RATE,           "before the lines on length: its texts speak of too many tokens"),
    Rule(K.RATE_LIMITED,          _of(429),                  None,             "the plain meaning of 429"),
    Rule(K.DROPPED,               _of(NO_STATUS),            w.LOST,           "inside a stream a gateway tells so of a lost connection, often as an invalid request"),
    Rule(K.BAD_UNICODE,           ASKED,                     w.BAD_UNICODE,    "this side encodes more leniently than some servers decode"),
    Rule(K.MISSPOKE,              ASKED,                     w.MODEL_MISSPOKE, "the server could not read what its own model wrote: another try may do"),
    Rule(K.MODEL_NOT_FOUND,       ASKED,                     w.NO_TOOLS,       "a parameter that a turn cannot do without: another model is needed"),
    Rule(K.STREAMING_UNSUPPORTED, ASKED,                     w.NO_STREAMING,   "`stream` is a parameter with a repair of its own"),
    Rule(K.CONTEXT_TOO_LONG,      ASKED,                     w.BOTH_TOO_LONG,  "Anthropic's sum of both is mended by a shorter conversation"),
    Rule(K.OUTPUT_LIMIT_TOO_HIGH, ASKED,                     w.OUTPUT_LIMIT,   "before the lines on length and on parameters: its texts speak of both"),
    Rule(K.MEDIA_REFUSED,         ASKED,                     w.MEDIA_REFUSED,  "before the same two lines: images are too large or unsupported as well"),
    Rule(K.PARAMETER_UNSUPPORTED, ASKED,                     w.PARAMETER,      "needs the parameter's name: without one there is nothing to leave out"),
    Rule(K.HISTORY_REFUSED,       ASKED,                     w.HISTORY,        "order or pairing of the messages; the templates of local servers say it under a 500"),
    Rule(K.CONTEXT_TOO_LONG,      ASKED,                     w.TOO_LONG,       "the words that providers are known to use"),
    Rule(K.CONTEXT_TOO_LONG,      _of(413),                  None,             "the plain meaning of 413"),
    Rule(K.MODEL_NOT_FOUND,       ASKED | _of(403),          w.NO_SUCH_MODEL,  "after the line on parameters, whose texts name the model too"),
    Rule(K.MODEL_NOT_FOUND,       _of(410),                  None,             "the plain meaning of 410: gone"),
    Rule(K.QUOTA_SPENT,           _of(402),                  None,             "the plain meaning of 402"),
    Rule(K.ACCESS_DENIED,         _of(403, 407, 451, 511),   None,             "a fresh key of the same account changes nothing"),
    Rule(K.ACCESS_DENIED,         _of(NO_STATUS),            w.FORBIDDEN,      "the same, told inside a stream"),
    Rule(K.TIMEOUT,               _of(408),                  None,             "the provider waited too long, for the request or for itself"),
    Rule(K.OVERLOADED,            _of(409, 425, 503, 529),   None,             "a lock or a queue that is free again in a while"),
    Rule(K.DROPPED,               _of(499),                  None,             "a proxy took this side to be gone"),
    Rule(K.BAD_REQUEST,           ALL_4XX | _of(501, 505),   None,             "the same request is refused again"),
    Rule(K.BAD_REQUEST,           ALL_3XX,                   None,             "the server is elsewhere: base_url is to say where"),
    Rule(K.SERVER_ERROR,          ALL_5XX,                   None,             "the provider's own fault, or a gateway's"),
    Rule(K.BAD_REQUEST,           _of(NO_STATUS),            w.PLAINLY_BAD,    "no status, but words that say what a 400 would"),
    Rule(K.SERVER_ERROR,          ANY,                       None,             "a failure that says nothing of itself is taken to pass"),
)


class Raised(NamedTuple):
    """An exception of this name, or one derived from it, is this kind; None: its response, body or cause decides."""

    name: str
    kind: FaultKind | None
    because: str


EXCEPTIONS: tuple[Raised, ...] = (
    # The SDK. `httpx` stands for httpx2 too, which has the same classes, and `httpcore` likewise.
    Raised("openai.APIStatusError",                   None,                  "its status and its body say it all"),
    Raised("openai.APITimeoutError",                  None,                  "which timeout it was, its cause knows"),
    Raised("openai.APIConnectionError",               None,                  "a wrapper: its cause knows"),
    Raised("openai.APIResponseValidationError",       K.MALFORMED,           "the reply is not what was promised"),
    Raised("openai.APIError",                         None,                  "raised for an error inside a stream: its body says it"),
    Raised("openai.ContentFilterFinishReasonError",   K.REFUSED,             "the SDK's parser met the content filter"),
    Raised("openai.LengthFinishReasonError",          K.INCOMPLETE,          "the SDK's parser met a cut reply"),
    Raised("openai.StreamAlreadyConsumed",            K.INTERNAL,            "a stream is read once"),
    Raised("openai.MissingStreamClassError",          K.INTERNAL,            "a stream is asked for with its class"),
    Raised("openai.WebSocketConnectionClosedError",   K.DROPPED,             "a socket that closed"),
    Raised("openai.WebSocketQueueFullError",          K.OVERLOADED,          "a socket that takes no more for now"),
    Raised("openai.SubjectTokenProviderError",        K.NOT_READY,           "the credential could not be had"),
    Raised("openai.OpenAIError",                      K.NOT_READY,           "the client says so of itself: no key, two kinds of key, an old API"),
    Raised("anthropic.APIStatusError",                None,                  "Anthropic's SDK is made by the same generator: as above"),
    Raised("anthropic.APITimeoutError",               None,                  "likewise"),
    Raised("anthropic.APIConnectionError",            None,                  "likewise"),
    Raised("anthropic.APIResponseValidationError",    K.MALFORMED,           "likewise"),
    Raised("anthropic.APIError",                      None,                  "likewise"),
    Raised("anthropic.RetryableError",                K.SERVER_ERROR,        "the SDK takes it to pass"),
    Raised("anthropic.AnthropicError",                K.NOT_READY,           "the client says so of itself: no key, no token of the cloud's"),
    # The transport.
    Raised("httpx.ConnectTimeout",                    K.CONNECT_FAILED,      "no connection in time"),
    Raised("httpx.PoolTimeout",                       K.CONNECT_FAILED,      "no connection was free in time"),
    Raised("httpx.TimeoutException",                  K.STALLED,             "reading or writing took too long"),
    Raised("httpx.ConnectError",                      K.CONNECT_FAILED,      "refused, unreachable, or no such host"),
    Raised("httpx.ProxyError",                        K.CONNECT_FAILED,      "the way there is closed"),
    Raised("httpx.UnsupportedProtocol",               K.BAD_REQUEST,         "an address without http or https"),
    Raised("httpx.LocalProtocolError",                K.BAD_REQUEST,         "this side may not send that: a header with a line feed, say"),
    Raised("httpx.DecodingError",                     K.MALFORMED,           "the body is not compressed as it says"),
    Raised("httpx.TooManyRedirects",                  K.BAD_REQUEST,         "an address that leads nowhere"),
    Raised("httpx.HTTPStatusError",                   None,                  "its status and its body say it all"),
    Raised("httpx.InvalidURL",                        K.BAD_REQUEST,         "an address that is none"),
    Raised("httpx.CookieConflict",                    K.BAD_REQUEST,         "two cookies of one name"),
    Raised("httpx.SSEError",                          K.MALFORMED,           "a stream that is none"),
    Raised("httpx.StreamClosed",                      K.DROPPED,             "the client was closed in mid-stream"),
    Raised("httpx.StreamError",                       K.INTERNAL,            "a body is read once, and before it is used"),
    Raised("httpx.HTTPError",                         K.DROPPED,             "read, write, close and protocol errors: the connection is lost"),
    Raised("httpcore.ProxyError",                     K.CONNECT_FAILED,      "as httpx's, where it comes through bare"),
    Raised("httpcore.UnsupportedProtocol",            K.BAD_REQUEST,         "likewise"),
    Raised("httpcore.ConnectTimeout",                 K.CONNECT_FAILED,      "likewise"),
    Raised("httpcore.PoolTimeout",                    K.CONNECT_FAILED,      "likewise"),
    Raised("httpcore.TimeoutException",               K.STALLED,             "likewise"),
    Raised("httpcore.ConnectError",                   K.CONNECT_FAILED,      "likewise"),
    Raised("httpcore.NetworkError",                   K.DROPPED,             "likewise"),
    Raised("httpcore.ProtocolError",                  K.DROPPED,             "likewise"),
    Raised("aiohttp.ConnectionTimeoutError",          K.CONNECT_FAILED,      "no connection in time, or none was free in time"),
    Raised("aiohttp.ServerTimeoutError",              K.STALLED,             "reading took too long"),
    Raised("aiohttp.ServerFingerprintMismatch",       K.UNTRUSTED,           "the server is another one than was pinned"),
    Raised("aiohttp.ClientConnectorError",            K.CONNECT_FAILED,      "refused, unreachable, no such host, a proxy or a handshake that failed"),
    Raised("aiohttp.ClientConnectionError",           K.DROPPED,             "reset, or closed before a word"),
    Raised("aiohttp.ContentEncodingError",            K.MALFORMED,           "the body is not compressed as it says"),
    Raised("aiohttp.DecompressSizeError",             K.MALFORMED,           "the body is a bomb"),
    Raised("aiohttp.ClientPayloadError",              None,                  "a body that broke off or cannot be unpacked: its cause knows"),
    Raised("aiohttp.InvalidURL",                      K.BAD_REQUEST,         "an address that is none"),
    Raised("aiohttp.NonHttpUrlClientError",           K.BAD_REQUEST,         "an address without http or https"),
    Raised("aiohttp.RedirectClientError",             K.BAD_REQUEST,         "an address that leads nowhere"),
    Raised("aiohttp.TooManyRedirects",                K.BAD_REQUEST,         "likewise"),
    Raised("aiohttp.ClientHttpProxyError",            K.CONNECT_FAILED,      "the way there is closed"),
    Raised("aiohttp.ContentTypeError",                K.MALFORMED,           "the reply is not what was promised"),
    Raised("aiohttp.ClientError",                     K.DROPPED,             "an answer that is no HTTP, a socket that closed: the connection is lost"),
    Raised("aiohttp.HttpProcessingError",             K.DROPPED,             "what is wrong with such an answer, where it comes through bare"),
    Raised("aiohttp.WSMessageTypeError",              K.INTERNAL,            "a message of a socket is read as what it is"),
    Raised("anyio.BrokenResourceError",               K.DROPPED,             "the other side is gone"),
    Raised("anyio.ClosedResourceError",               K.DROPPED,             "this side has closed it"),
    Raised("anyio.EndOfStream",                       K.DROPPED,             "it ended too early"),
    # The system.
    Raised("builtins.ImportError",                    K.NOT_READY,           "what would speak to this server, or through this proxy, is not installed"),
    Raised("ssl.SSLCertVerificationError",            K.UNTRUSTED,           "found anywhere behind an error, it is the reason"),
    Raised("ssl.SSLError",                            K.CONNECT_FAILED,      "the handshake failed"),
    Raised("socket.gaierror",                         K.CONNECT_FAILED,      "no such host, or nobody to ask"),
    Raised("builtins.TimeoutError",                   K.STALLED,             "the system gave up waiting"),
    Raised("builtins.ConnectionRefusedError",         K.CONNECT_FAILED,      "nobody listens"),
    Raised("builtins.ConnectionError",                K.DROPPED,             "reset, aborted, or a broken pipe"),
    Raised("builtins.OSError",                        K.CONNECT_FAILED,      "no network, no file descriptor, no route"),
    Raised("builtins.UnicodeEncodeError",             K.BAD_UNICODE,         "the request holds text that cannot be sent"),
)
# fmt: on
_BY_NAME: Mapping[str, Raised] = {each.name: each for each in EXCEPTIONS}
_ROOTS = {"httpx2": "httpx", "httpcore2": "httpcore"}


def fault_of(error: BaseException, *, now: Now = time.time) -> Fault:
    """The fault that this exception is: what lies behind it decides where it is only a wrapper."""
    chain = [*_chain(error)]
    hidden = _chain(error, hidden=True)  # httpcore hides what it wraps
    untrusted = next((each for each in hidden if isinstance(each, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        return Fault(K.UNTRUSTED, _told(untrusted))
    wrapped: Fault | None = None
    for each in chain:
        raised = rule_for(type(each))
        if raised is None:
            continue
        if raised.kind is not None:
            return Fault(_kind_of(each, raised.kind), _told(each))
        response = getattr(each, "response", None)
        if response is not None:
            return fault_of_response(response.status_code, response.headers, _content(each, response), now=now)
        wrapped = wrapped or _wrapped(each)
    return wrapped or Fault(K.UNKNOWN, _told(error))


def fitted(fault: Fault, *, parameters: Container[str], streamed: bool, media: bool) -> Fault:
    """The fault as it stands for a request that had these: what it did not have cannot be taken from it."""
    kind = fault.kind
    if (
        (kind is K.PARAMETER_UNSUPPORTED and root_of(fault.parameter) not in parameters)
        or (kind is K.STREAMING_UNSUPPORTED and not streamed)
        or (kind is K.MEDIA_REFUSED and not media)
    ):
        kind = K.BAD_REQUEST
    elif kind is K.CONTEXT_TOO_LONG and fault.status == TOO_LARGE and media:
        kind = K.MEDIA_REFUSED  # bytes were too many, and pictures have the most
    return fault if kind is fault.kind else evolve(fault, kind=kind)


def root_of(parameter: str) -> str:
    """The parameter of the body that this name is, or points into (`a.b`, `a[0]`)."""
    return re.split(r"[.\[]", parameter, maxsplit=1)[0]


def rule_for(kind: type[BaseException]) -> Raised | None:
    """The line of EXCEPTIONS for this class, its own or the nearest base's."""
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        found = _BY_NAME.get(f"{_ROOTS.get(root, root)}.{base.__name__}")
        if found is not None:
            return found
    return None


def fault_of_response(status: int, headers: Mapping[str, str], body: Any, *, now: Now = time.time) -> Fault:
    """The fault that this answer is; *body* is parsed JSON or text."""
    lower = {name.lower(): value for name, value in headers.items()}
    said = said_in(body, status)
    word = lower.get("x-should-retry", "").strip().lower()
    return _fault(
        said,
        message=said.message or f"HTTP status {status}",
        retry_after_s=wait_of(status, lower, body, said.message, now),
        should_retry={"true": True, "false": False}.get(word),
        request_id=request_id_of(lower),
    )


def fault_of_body(body: Any) -> Fault:
    """The fault that is told inside a reply whose own status was fine; its code may be a status all the same."""
    said = said_in(body)
    return _fault(said, retry_after_s=wait_of(said.status or None, {}, body, said.message))


def request_id_of(headers: Mapping[str, str]) -> str:
    """The provider's id of the request, for whoever asks it why."""
    return next((headers[name] for name in HEADERS_WITH_ID if headers.get(name)), "")


def _fault(said: Said, *, message: str = "", **facts: Any) -> Fault:
    kind = next(rule.kind for rule in RULES if rule.fits(said))
    parameter, limit = "", None
    if kind is K.PARAMETER_UNSUPPORTED:
        parameter = said.parameter or _captured(w.PARAMETER, said.text)
        kind = _kind_about(parameter)
    elif kind is K.OUTPUT_LIMIT_TOO_HIGH:
        limit = _limit(said.text)
        if limit is not None and limit < SMALLEST_OUTPUT_TOKENS and w.CONTEXT_SIZE.search(said.text):
            kind, limit = K.CONTEXT_TOO_LONG, None
    return Fault(
        kind,
        short(redacted(message or said.message)),
        status=said.status or None,
        code=said.code,
        parameter=parameter,
        limit=limit,
        **facts,
    )


def _kind_about(parameter: str) -> FaultKind:
    """What a parameter that is not known comes to: the messages, and what has no name, cannot be left out."""
    root = root_of(parameter)
    if root in ("messages", "input"):
        return K.HISTORY_REFUSED
    if root == "stream":
        return K.STREAMING_UNSUPPORTED
    return K.PARAMETER_UNSUPPORTED if root not in ("", "model") else K.BAD_REQUEST


def _captured(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return "" if found is None else next((group for group in found.groups() if group), "")


def _limit(text: str) -> int | None:
    """The output limit that would be taken: the room beside the prompt where both are told, else the number named."""
    context, prompt = _captured(w.CONTEXT_SIZE, text), _captured(w.PROMPT_SIZE, text)
    if context and prompt:
        return max(_number(context) - _number(prompt), 0)
    named = _captured(w.LIMIT, text)
    return _number(named) if named else None


def _number(digits: str) -> int:
    """The number; of an absurd one, which Python would refuse to read, as much as is absurd enough."""
    return int(digits[:LONGEST_NUMBER])


def _chain(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """The error and what lies behind it, outermost first, *hidden* or not; of a group, its first member."""
    each: BaseException | None = error
    for _ in range(MAX_CHAIN):  # causes may go round
        if each is None:
            return
        yield each
        group = each.exceptions[0] if isinstance(each, BaseExceptionGroup) else None
        each = group or each.__cause__ or (None if each.__suppress_context__ and not hidden else each.__context__)


def _wrapped(error: BaseException) -> Fault:
    """What an error without a response says by itself, should nothing better lie behind it."""
    names = {base.__name__ for base in type(error).__mro__}
    if "APITimeoutError" in names:
        return Fault(K.STALLED, _told(error))
    if "APIConnectionError" in names:
        return Fault(K.CONNECT_FAILED, _told(error))
    if "ClientPayloadError" in names:
        return Fault(K.DROPPED, _told(error))
    body = getattr(error, "body", None)
    return fault_of_body(body or str(error))


def _kind_of(error: BaseException, kind: FaultKind) -> FaultKind:
    """The kind that the table gives; but text that only a header cannot carry is no text of the conversation."""
    if isinstance(error, UnicodeEncodeError) and error.encoding.replace("-", "").lower() != "utf8":
        return K.BAD_REQUEST
    return kind


def _content(error: BaseException, response: Any) -> Any:
    """The body that came with an error: the SDK has read it, httpx may not have."""
    body = getattr(error, "body", None)
    if body is not None:
        return {"error": body} if isinstance(body, dict) and "error" not in body else body
    try:
        return response.text
    except Exception:  # noqa: BLE001  # a body that was not read, or cannot be: the status says enough
        return ""


def _told(error: BaseException) -> str:
    """The error on one line. One of a header, or of text that cannot be sent, would quote what must not be told."""
    name = type(error).__name__
    if name == "LocalProtocolError":
        return f"{name}: this request may not be sent as it is"
    if isinstance(error, UnicodeEncodeError):
        return f"{name}: {error.reason} (codec {error.encoding}, position {error.start})"
    text = short(redacted(str(error)))
    return f"{name}: {text}" if text else name
