"""Whatever fails on the way to a provider, as a fault."""

from __future__ import annotations

import errno
import inspect
import socket
import ssl

import aiohttp
import aiohttp.http_exceptions
import anthropic
import anyio
import httpcore
import httpcore2
import httpx
import httpx2
import openai
import openai._exceptions
import openai._response
import openai.lib._old_api
import openai.lib.azure
import pytest

from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.providers.classify import EXCEPTIONS, RULES, fault_of, fault_of_body, fault_of_response, fitted, rule_for

K = FaultKind


def told(status, message, headers=None, **error):
    """The fault of an answer with this error in OpenAI's shape."""
    return fault_of_response(status, headers or {}, {"error": {"message": message, **error}}, now=lambda: 0.0)


# ---------------------------------------------------------------- what a provider says


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, K.BAD_REQUEST), (307, K.BAD_REQUEST), (400, K.BAD_REQUEST), (401, K.CREDENTIAL_EXPIRED), (402, K.QUOTA_SPENT), (403, K.ACCESS_DENIED), (404, K.BAD_REQUEST),
        (405, K.BAD_REQUEST), (406, K.BAD_REQUEST), (407, K.ACCESS_DENIED), (408, K.TIMEOUT), (409, K.OVERLOADED),
        (410, K.MODEL_NOT_FOUND), (413, K.CONTEXT_TOO_LONG), (415, K.BAD_REQUEST), (418, K.BAD_REQUEST), (422, K.BAD_REQUEST),
        (425, K.OVERLOADED), (429, K.RATE_LIMITED), (431, K.BAD_REQUEST), (451, K.ACCESS_DENIED), (499, K.DROPPED),
        (500, K.SERVER_ERROR), (501, K.BAD_REQUEST), (502, K.SERVER_ERROR), (503, K.OVERLOADED), (504, K.SERVER_ERROR),
        (505, K.BAD_REQUEST), (511, K.ACCESS_DENIED), (520, K.SERVER_ERROR), (524, K.SERVER_ERROR), (529, K.OVERLOADED),
        (599, K.SERVER_ERROR),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", ["", {}, "<html><body>no</body></html>", {"error": {"message": "no"}}])
def test_a_status_alone(status, kind, body):
    """A status means the same whatever body says nothing of the reason."""
    fault = fault_of_response(status, {}, body)

    assert (kind, status) == (fault.kind, fault.status)
    assert fault.message


def test_every_status_is_some_kind():
    """Each status that is none of success has a kind, and only 4xx and 5xx exist as failures."""
    kinds = {status: fault_of_response(status, {}, "").kind for status in range(400, 600)}

    assert K.UNKNOWN not in kinds.values()


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9407 tokens.",
        "prompt is too long: 208117 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length",
        "Input length (263900) exceeds model's maximum context length (262144).",
        "Input length 132207 exceeds the maximum allowed input length of 131040 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Prompt too long: 4410 tokens exceeds max_seq_len 4096 (leave room for output tokens)",
        "The input token count (1101500) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 412006 tokens.",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 264411)",
        "invalid params, context window exceeds limit",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "tokens to keep from the initial prompt is greater than the context length",
        "Range of input length should be [1, 98304]",
        "Prompt 超长",
        "Prompt exceeds max length",
        "Input is too long for requested model.",
        "Invalid 'input[12].content[1].text': string too long. Expected a string with maximum length 10485760",
        "Request exceeds the maximum size",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_a_context_that_is_too_long(message, status):
    """Twenty wordings of one thing, under each status that providers use for it."""
    assert K.CONTEXT_TOO_LONG is told(status, message).kind


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("max_tokens is too large: 50000. This model supports at most 16384 completion tokens", 16384),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens", 8192),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens`", 8192),
        ("Range of max_tokens should be [1, 8192]", 8192),
        ("max_completion_tokens is too large", None),
        ("max_tokens must be at most " + "9" * 6000, 10**18 - 1),
        (
            (
                "'max_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has "
                "15 input tokens (8192 > 4096 - 15)."
            ),
            4081,
        ),
        (
            (
                "This model's maximum context length is 4097 tokens, however you requested 5000 tokens (1000 in your prompt; "
                "4000 for the completion). Please reduce your prompt; or completion length."
            ),
            3097,
        ),
        (
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 40012 tokens (8012 of "
                "text input, 32000 in the output)."
            ),
            24756,
        ),
    ],
)
def test_an_output_limit_that_is_too_high(message, limit):
    """The limit that would be taken is read where it is named, and is the room beside the prompt where that is."""
    fault = told(400, message)

    assert (K.OUTPUT_LIMIT_TOO_HIGH, limit) == (fault.kind, fault.limit)


def test_no_room_for_an_answer_is_a_context_too_long():
    """A limit that leaves no room to answer is no way out: the prompt must become shorter."""
    fault = told(
        400,
        "maximum context length is 4097 tokens, you requested 8000 tokens (4000 in your prompt; 4000 for the completion)",
    )

    assert (K.CONTEXT_TOO_LONG, None) == (fault.kind, fault.limit)


@pytest.mark.parametrize(
    ("message", "error", "parameter"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            {},
            "max_tokens",
        ),
        ("Unsupported value: 'temperature' does not support 0.2 with this model.", {}, "temperature"),
        ("Unknown parameter: 'foo'.", {"code": "unknown_parameter", "param": "foo"}, "foo"),
        ("Unrecognized request argument supplied: reasoning_effort", {}, "reasoning_effort"),
        ("create() got an unexpected keyword argument 'top_k'", {}, "top_k"),
        ("property 'seed' is unsupported", {}, "seed"),
        ('Invalid JSON payload received. Unknown name "stop": Cannot find field.', {}, "stop"),
        ("Argument not supported on this model: presence_penalty", {}, "presence_penalty"),
        ("`logprobs` is not supported by this provider", {}, "logprobs"),
        ("x", {"code": "unsupported_parameter", "param": "tools[0].function.strict"}, "tools[0].function.strict"),
        ("'stream_options' is not supported", {}, "stream_options"),
    ],
)
def test_a_parameter_that_is_not_known(message, error, parameter):
    """The parameter's name comes out of the body or out of the words."""
    fault = told(400, message, **error)

    assert (K.PARAMETER_UNSUPPORTED, parameter) == (fault.kind, fault.parameter)


def test_fastapi_says_where_a_parameter_stands():
    """A validation error of FastAPI names the place in the body."""
    detail = [
        {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted", "input": 5}
    ]
    fault = fault_of_response(422, {}, {"detail": detail})

    assert (K.PARAMETER_UNSUPPORTED, "top_k") == (fault.kind, fault.parameter)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        # Money and rates.
        (429, "You exceeded your current quota, please check your plan and billing details.", K.QUOTA_SPENT),
        (429, "You exceeded your current quota, please check your billing details. Please retry in 34.2s.", K.RATE_LIMITED),
        (403, "Key limit exceeded (monthly limit)", K.QUOTA_SPENT),
        (400, "Your credit balance is too low to access the API.", K.QUOTA_SPENT),
        (402, "You requested up to 65536 tokens, but can only afford 3471.", K.OUTPUT_LIMIT_TOO_HIGH),
        (402, "This requires more credits: you can only afford 0.", K.QUOTA_SPENT),
        (429, "Rate limit reached for requests", K.RATE_LIMITED),
        (400, "ThrottlingException: Too many tokens, please wait before trying again.", K.RATE_LIMITED),
        (429, "Request too large for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12000.", K.CONTEXT_TOO_LONG),
        (429, "The engine is currently overloaded", K.OVERLOADED),
        (500, "The server is busy, too many requests", K.OVERLOADED),
        (503, "Loading model", K.OVERLOADED),
        # Credentials.
        (400, "API key not valid. Please pass a valid API key.", K.CREDENTIAL_EXPIRED),
        (403, "token expired", K.CREDENTIAL_EXPIRED),
        (403, "You are not allowed to sample from this model", K.ACCESS_DENIED),
        (404, "No endpoints found matching your data policy", K.ACCESS_DENIED),
        # Content.
        (400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", K.REFUSED),
        (500, "Your request was rejected as a result of our safety system.", K.REFUSED),
        # Streams.
        (400, "Your organization must be verified to stream this model.", K.STREAMING_UNSUPPORTED),
        (400, "Streaming is not supported for this model", K.STREAMING_UNSUPPORTED),
        (501, "This model does not support streaming", K.STREAMING_UNSUPPORTED),
        (400, "Unsupported parameter: 'stream'", K.STREAMING_UNSUPPORTED),
        # Media.
        (400, "Invalid content type. image_url is only supported by certain models.", K.MEDIA_REFUSED),
        (404, "No endpoints found that support image input", K.MEDIA_REFUSED),
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", K.MEDIA_REFUSED),
        (400, "unknown variant `image_url`, expected `text`", K.MEDIA_REFUSED),
        (400, "You uploaded an unsupported image. Please make sure your image is valid.", K.MEDIA_REFUSED),
        # History.
        (400, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", K.HISTORY_REFUSED),
        (400, "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", K.HISTORY_REFUSED),
        (500, "Jinja Exception: Conversation roles must alternate user/assistant", K.HISTORY_REFUSED),
        (400, "messages: final message must be from the user", K.HISTORY_REFUSED),
        (400, "messages.3.content.0: Invalid `signature` in `thinking` block", K.HISTORY_REFUSED),
        (400, "messages.1.reasoning_content: Extra inputs are not permitted", K.HISTORY_REFUSED),
        # Unicode.
        (400, "The request body is not valid JSON: str is not valid UTF-8: surrogates not allowed", K.BAD_UNICODE),
        # Models.
        (404, "The model `m` does not exist or you do not have access to it.", K.MODEL_NOT_FOUND),
        (404, 'model "m" not found, try pulling it first', K.MODEL_NOT_FOUND),
        (400, "m is not a valid model ID", K.MODEL_NOT_FOUND),
        (400, "Invalid model: m", K.MODEL_NOT_FOUND),
        (400, "registry.test/m does not support tools", K.MODEL_NOT_FOUND),
        (404, "No endpoints found that support tool use.", K.MODEL_NOT_FOUND),
        (404, "Not Found", K.BAD_REQUEST),
        # What the model did.
        (400, "Failed to call a function. Please adjust your prompt.", K.MISSPOKE),
        (500, "Failed to parse input at pos 14", K.MISSPOKE),
    ],
)  # fmt: skip
def test_words_decide_where_a_status_does_not(status, message, kind):
    """The words of providers, each known from one of them."""
    assert kind is told(status, message).kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, K.CONTEXT_TOO_LONG),
        ({"error": {"message": "x", "code": "model_not_found"}}, K.MODEL_NOT_FOUND),
        ({"error": {"message": "x", "code": "insufficient_quota"}}, K.QUOTA_SPENT),
        ({"error": {"message": "x", "code": "rate_limit_exceeded"}}, K.RATE_LIMITED),
        ({"error": {"message": "x", "type": "authentication_error"}}, K.CREDENTIAL_EXPIRED),
        ({"error": {"message": "x", "type": "overloaded_error"}}, K.OVERLOADED),
        ({"error": {"message": "x", "type": "invalid_request_error"}}, K.BAD_REQUEST),
        ({"error": {"message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, K.REFUSED),
        ({"error": {"message": "Connection reset by peer", "type": "invalid_request_error"}}, K.DROPPED),
        ({"error": "model 'm' not found"}, K.MODEL_NOT_FOUND),
        ({"error": {"message": "x"}}, K.SERVER_ERROR),
        ({"error": {"message": "Failed.", "failed_generation": "content_filter"}}, K.SERVER_ERROR),
        ({}, K.SERVER_ERROR),
    ],
)
def test_errors_without_a_status(body, kind):
    """Inside a reply there is no status: codes, types and words decide, and what says nothing is taken to pass."""
    assert kind is fault_of_body(body).kind


def test_all_that_is_known_is_kept():
    """A fault holds the message, the status, the code, the wait, the provider's word on a retry, and the request's id."""
    headers = {"Retry-After": "7", "X-Should-Retry": "false", "X-Request-Id": "req_1"}
    expected = Fault(K.RATE_LIMITED, "Slow down", 429, 7.0, should_retry=False, code="rate_limit_exceeded")
    fault = told(429, "Slow down", headers, code="rate_limit_exceeded")

    assert expected == fault
    assert "req_1" == fault.request_id


@pytest.mark.parametrize(("word", "expected"), [("true", True), (" False", False), ("maybe", None), ("", None)])
def test_the_providers_word_on_a_retry(word, expected):
    """`x-should-retry` is heard where it says yes or no."""
    assert expected is told(500, "x", {"x-should-retry": word}).should_retry


def test_every_rule_can_fire():
    """No rule stands in the shadow of those above it."""
    from fsm_loop.providers.said import Said

    def shadowed(place, rule):
        if rule.words is not None:
            return False
        statuses = rule.statuses or {0}
        return all(
            any(above.words is None and above.fits(Said(status, "")) for above in RULES[:place]) for status in statuses
        )

    assert [] == [rule.because for place, rule in enumerate(RULES) if shadowed(place, rule)]
    assert RULES[-1].words is None
    assert not RULES[-1].statuses


# ---------------------------------------------------------------- what a fault comes to for one request


@pytest.mark.parametrize(
    ("fault", "parameters", "streamed", "media", "kind"),
    [
        (Fault(K.PARAMETER_UNSUPPORTED, parameter="seed"), {"seed"}, True, False, K.PARAMETER_UNSUPPORTED),
        (Fault(K.PARAMETER_UNSUPPORTED, parameter="tools[0].strict"), {"tools"}, True, False, K.PARAMETER_UNSUPPORTED),
        (Fault(K.PARAMETER_UNSUPPORTED, parameter="seed"), {"model"}, True, False, K.BAD_REQUEST),
        (Fault(K.STREAMING_UNSUPPORTED), set(), True, False, K.STREAMING_UNSUPPORTED),
        (Fault(K.STREAMING_UNSUPPORTED), set(), False, False, K.BAD_REQUEST),
        (Fault(K.MEDIA_REFUSED), set(), True, True, K.MEDIA_REFUSED),
        (Fault(K.MEDIA_REFUSED), set(), True, False, K.BAD_REQUEST),
        (Fault(K.CONTEXT_TOO_LONG, status=413), set(), True, True, K.MEDIA_REFUSED),
        (Fault(K.CONTEXT_TOO_LONG, status=413), set(), True, False, K.CONTEXT_TOO_LONG),
        (Fault(K.CONTEXT_TOO_LONG, status=400), set(), True, True, K.CONTEXT_TOO_LONG),
    ],
)
def test_what_was_not_sent_cannot_be_left_out(fault, parameters, streamed, media, kind):
    """A repair that would change nothing is not offered, and pictures go before words where bytes are too many."""
    assert kind is fitted(fault, parameters=parameters, streamed=streamed, media=media).kind


def test_every_repair_is_asked_for_by_some_rule():
    """There is no repair that no provider's words lead to."""
    assert set(RepairKind) == {rule.kind.repair for rule in RULES if rule.kind.repair}


# ---------------------------------------------------------------- what is raised


def classes_of(module):
    """The exception classes that this module shows."""
    return {each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, Exception)}


def below(kind):
    """This class and all that are derived from it."""
    return {kind}.union(*map(below, kind.__subclasses__()))


MODULES = (
    openai,
    openai._exceptions,
    openai._response,
    openai.lib._old_api,
    openai.lib.azure,
    httpx,
    httpx2,
    httpcore,
    httpcore2,
    aiohttp,
    aiohttp.http_exceptions,
    anthropic,
    anthropic._exceptions,
)
RAISED = sorted(
    {each for module in MODULES for each in classes_of(module) if each.__module__.split(".")[0] in ("openai", "anthropic", "aiohttp", "httpx", "httpx2", "httpcore", "httpcore2")}
    | below(openai.OpenAIError) | below(anthropic.AnthropicError) | below(httpx.HTTPError) | below(httpx2.HTTPError) | below(ssl.SSLError)
    | below(httpx.StreamError) | below(httpx2.StreamError)
    | below(aiohttp.ClientError) | below(aiohttp.http_exceptions.HttpProcessingError)
    | {socket.gaierror, ImportError, TimeoutError, ConnectionResetError, ConnectionRefusedError, BrokenPipeError, OSError},
    key=lambda each: f"{each.__module__}.{each.__qualname__}",
)  # fmt: skip
# What is no failure of a call: warnings, a webhook's signature, httpcore's word for a pool that is in use, and what
# aiohttp says to itself of a stream's end and of sockets.
NO_FAULTS = {
    openai.InvalidWebhookSignatureError,
    aiohttp.EofStream,
    aiohttp._websocket.models.WebSocketError,
    httpcore.ConnectionNotAvailable,
    httpcore2.ConnectionNotAvailable,
    *(each for each in RAISED if issubclass(each, Warning)),
}


@pytest.mark.parametrize("kind", RAISED, ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_every_exception_has_a_line(kind):
    """Whatever the SDKs, both generations of their transport, and aiohttp can raise has a line in the table."""
    assert (kind in NO_FAULTS) == (rule_for(kind) is None)


def test_the_walk_has_seen_them():
    """The walk above is over the real classes, not over an empty set."""
    names = {f"{each.__module__.split('.')[0]}.{each.__name__}" for each in RAISED}

    assert {
        "openai.RateLimitError",
        "openai.APITimeoutError",
        "httpx.ReadError",
        "httpx2.ReadError",
        "httpx2.SSEError",
        "anthropic.OverloadedError",
        "aiohttp.ServerDisconnectedError",
        "aiohttp.TransferEncodingError",
    } <= names
    assert len(RAISED) > 90


def test_every_line_is_of_some_class():
    """No line of the table is misspelt, or of a class that is gone."""
    known = set().union(*(each.__mro__ for each in RAISED))
    known |= classes_of(anyio) | {
        UnicodeEncodeError,
        ConnectionError,
        openai._response.StreamAlreadyConsumed,
        openai._response.MissingStreamClassError,
    }
    names = {f"{each.__module__.split('.')[0].rstrip('2').lstrip('_')}.{each.__name__}" for each in known}

    assert set() == {line.name for line in EXCEPTIONS} - names


REQUEST = httpx2.Request("POST", "https://api.test/v1")


def behind(outer, *inner):
    """The exception, raised from these, the deepest last."""
    error = outer
    for each in inner:
        error.__cause__ = each
        error = each
    return outer


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(behind(openai.APITimeoutError(REQUEST), httpx2.ReadTimeout("")), K.STALLED, id="a read that took too long"),
        pytest.param(behind(openai.APITimeoutError(REQUEST), httpx2.ConnectTimeout("")), K.CONNECT_FAILED, id="no connection in time"),
        pytest.param(behind(openai.APITimeoutError(REQUEST), httpx2.PoolTimeout("")), K.CONNECT_FAILED, id="no free connection"),
        pytest.param(openai.APITimeoutError(REQUEST), K.STALLED, id="a timeout of nobody knows what"),
        pytest.param(behind(openai.APIConnectionError(request=REQUEST), httpx2.ConnectError("x")), K.CONNECT_FAILED, id="refused"),
        pytest.param(behind(openai.APIConnectionError(request=REQUEST), httpx.RemoteProtocolError("x")), K.DROPPED, id="the older httpx"),
        pytest.param(behind(openai.APIConnectionError(request=REQUEST), ConnectionResetError()), K.DROPPED, id="reset"),
        pytest.param(openai.APIConnectionError(request=REQUEST), K.CONNECT_FAILED, id="a connection of nobody knows what"),
        pytest.param(
            behind(openai.APIConnectionError(request=REQUEST), httpx2.ConnectError("x"), ssl.SSLCertVerificationError("self-signed")),
            K.UNTRUSTED,
            id="a certificate that nobody trusts",
        ),
        pytest.param(behind(RuntimeError("x"), httpx2.ReadError("x")), K.DROPPED, id="behind something else"),
        pytest.param(openai.APIError("Rate limit reached", REQUEST, body={"code": "rate_limit_exceeded"}), K.RATE_LIMITED, id="in a stream"),
        pytest.param(openai.APIError("upstream connect error", REQUEST, body=None), K.DROPPED, id="in a stream, without a body"),
        pytest.param(httpx2.HTTPStatusError("x", request=REQUEST, response=httpx2.Response(529, text="x")), K.OVERLOADED, id="a bare status"),
        pytest.param(ssl.SSLError("handshake"), K.CONNECT_FAILED, id="a handshake"),
        pytest.param(socket.gaierror(-2, "Name or service not known"), K.CONNECT_FAILED, id="no such host"),
        pytest.param(OSError(errno.EMFILE, "Too many open files"), K.CONNECT_FAILED, id="no file descriptor"),
        pytest.param(BrokenPipeError(), K.DROPPED, id="a broken pipe"),
        pytest.param(TimeoutError(), K.STALLED, id="the system's timeout"),
        pytest.param(anyio.BrokenResourceError(), K.DROPPED, id="anyio's word for it"),
        pytest.param(ExceptionGroup("x", [ConnectionRefusedError()]), K.CONNECT_FAILED, id="a group"),
        pytest.param(UnicodeEncodeError("utf-8", "a\ud800", 1, 2, "surrogates not allowed"), K.BAD_UNICODE, id="a surrogate"),
        pytest.param(UnicodeEncodeError("ascii", "ä", 0, 1, "ordinal not in range"), K.BAD_REQUEST, id="a header's text"),
        pytest.param(KeyError("x"), K.UNKNOWN, id="anything else"),
    ],
)  # fmt: skip
def test_exceptions(error, kind):
    """What lies behind a wrapper decides; what has no line is unknown."""
    assert kind is fault_of(error).kind


@pytest.mark.parametrize("http", [httpx, httpx2])
def test_a_status_error_is_read_like_its_answer(http):
    """The SDK's status errors, and httpx's own, say what their answer says."""
    response = http.Response(429, headers={"retry-after": "7", "x-request-id": "r1"}, json={"error": {"message": "x"}})
    error = openai.RateLimitError(
        "x", response=httpx2.Response(429, headers=dict(response.headers), request=REQUEST), body={"message": "x"}
    )
    bare = http.HTTPStatusError("x", request=http.Request("POST", "https://a.test"), response=response)

    assert fault_of(error) == fault_of(bare) == Fault(K.RATE_LIMITED, "x", 429, 7.0)
    assert "r1" == fault_of(bare).request_id


def test_a_chain_that_bites_its_tail_ends():
    """Causes that go round are walked once."""
    first, second = RuntimeError("1"), RuntimeError("2")
    first.__cause__, second.__cause__ = second, first

    assert K.UNKNOWN is fault_of(first).kind


@pytest.mark.parametrize(
    "error",
    [
        httpx2.LocalProtocolError("Illegal header value b's3cr3t'"),
        UnicodeEncodeError("ascii", "s3cr3t-ä", 7, 8, "ordinal not in range"),
        httpx2.ConnectError("cannot reach https://me:s3cr3t@api.test"),
    ],
)
def test_errors_tell_no_secret(error):
    """What an error quotes of the request is not told on."""
    assert "s3cr3t" not in fault_of(error).message
