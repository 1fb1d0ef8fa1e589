"""What litellm raises, as a fault in our words.

litellm sorts each failure into a class of its own, and on the way it loses bodies, invents statuses (500 for a lost
connection) and adds its own text. What lies behind its exception is nearer to the wire: so the first cause that is not
litellm's decides, then the answer that its adapter for the vendor kept, and only then its own class, by this table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.providers.classify import MAX_CHAIN, fault_of, fault_of_body, fault_of_response, rule_for
from fsm_loop.providers.said import redacted, short

K = FaultKind
ROOT = "litellm"
OWN = f"{ROOT}.exceptions"
# Its adapters for the vendors' own protocols; what they raise holds the vendor's status and body.
ADAPTERS = f"{ROOT}.llms."
VAGUE = frozenset((K.SERVER_ERROR, K.DROPPED, K.BAD_REQUEST))  # of these its words may know better
ENDED = re.compile(r"stream ended before a finish_reason", re.IGNORECASE)
PARAMETER = re.compile(r"does not support parameters: \[?['\"]?([A-Za-z_]\w*)")

# fmt: off
KINDS: Mapping[str, FaultKind] = {
    "CallerCredentialAuthenticationError": K.CREDENTIAL_EXPIRED,
    "AuthenticationError":                 K.CREDENTIAL_EXPIRED,
    "PermissionDeniedError":               K.ACCESS_DENIED,
    "NotFoundError":                       K.MODEL_NOT_FOUND,
    "LiteLLMUnknownProvider":              K.MODEL_NOT_FOUND,
    "ContextWindowExceededError":          K.CONTEXT_TOO_LONG,
    "ContentPolicyViolationError":         K.REFUSED,
    "RejectedRequestError":                K.REFUSED,
    "UnsupportedParamsError":              K.PARAMETER_UNSUPPORTED,
    "ImageFetchError":                     K.MEDIA_REFUSED,
    "PaymentRequiredError":                K.QUOTA_SPENT,
    "BudgetExceededError":                 K.QUOTA_SPENT,
    "RateLimitError":                      K.RATE_LIMITED,
    "Timeout":                             K.STALLED,
    "APIConnectionError":                  K.DROPPED,
    "MidStreamFallbackError":              K.DROPPED,
    "ServiceUnavailableError":             K.OVERLOADED,
    "BadGatewayError":                     K.SERVER_ERROR,
    "InternalServerError":                 K.SERVER_ERROR,
    "APIResponseValidationError":          K.MALFORMED,
    "UnprocessableEntityError":            K.BAD_REQUEST,
    "InvalidRequestError":                 K.BAD_REQUEST,
    "BadRequestError":                     K.BAD_REQUEST,
    "MockException":                       K.INTERNAL,
    "ModelNotMappedError":                 K.MODEL_NOT_FOUND,
    "GuardrailRaisedException":            K.REFUSED,
    "BlockedPiiEntityError":               K.REFUSED,
    "ModifyResponseException":             K.REFUSED,
    "SensitiveDataRouteException":         K.REFUSED,
    "APIError":                            K.SERVER_ERROR,
    "OpenAIError":                         K.NOT_READY,
}
# fmt: on


def fault_of_litellm(error: BaseException) -> Fault:
    """The fault that this exception of litellm's is, by what lies nearest to the wire."""
    chain = [*_chain(error)]
    for each in chain:
        if not _is_litellms(each) and rule_for(type(each)) is not None:
            return fault_of(each)
    for each in chain:
        status = getattr(each, "status_code", None)
        if _module(each).startswith(ADAPTERS) and isinstance(status, int) and not _is_wrapper(each):
            headers = {str(name): str(value) for name, value in dict(getattr(each, "headers", None) or {}).items()}
            return fault_of_response(status, headers, getattr(each, "body", None) or _told(each))
    unread = next((each for each in chain if isinstance(each, json.JSONDecodeError)), None)
    if unread is not None:
        return Fault(K.MALFORMED, f"the reply is not JSON: {_told(unread)}")
    own = [(each, kind) for each in chain if (kind := kind_of(type(each))) is not None]
    if not own:
        return fault_of(error)
    told = _fault(*own[-1])  # the innermost is the least embellished
    if told.kind not in VAGUE:
        return told
    said = fault_of_body({"message": told.message})
    return told if said.kind in VAGUE else said


def is_end(error: BaseException) -> bool:
    """Whether litellm says so that a stream has ended without a finish reason."""
    return ENDED.search(str(error)) is not None


def kind_of(raised: type[BaseException]) -> FaultKind | None:
    """The kind of litellm's own class, or of the nearest base that has one."""
    own = (each.__name__ for each in raised.__mro__ if each.__module__ == OWN)
    return next((KINDS[name] for name in own if name in KINDS), None)


def _fault(error: BaseException, kind: FaultKind) -> Fault:
    text = _told(error)
    found = PARAMETER.search(text) if kind is K.PARAMETER_UNSUPPORTED else None
    if kind is K.PARAMETER_UNSUPPORTED and found is None:
        kind = K.BAD_REQUEST  # without a name there is nothing to leave out
    return Fault(kind, text, parameter=found[1] if found else "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and all that lies behind it, hidden or not, outermost first."""
    each: BaseException | None = error
    for _ in range(MAX_CHAIN):  # causes may go round
        if each is None:
            return
        yield each
        original: Any = getattr(each, "original_exception", None)
        each = each.__cause__ or each.__context__ or (original if isinstance(original, BaseException) else None)


def _module(error: BaseException) -> str:
    return type(error).__module__


def _is_litellms(error: BaseException) -> bool:
    return _module(error).partition(".")[0] == ROOT


def _is_wrapper(error: BaseException) -> bool:
    """Whether the adapter only says that there was no answer: then its status is invented."""
    return getattr(error, "body", None) is None and not getattr(error, "headers", None)


def _told(error: BaseException) -> str:
    return short(redacted(str(error)))
