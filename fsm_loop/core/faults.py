"""What went wrong outside, in our words: each kind on one line, with what may be done about it."""

from __future__ import annotations

from enum import Enum, StrEnum

from attrs import field, frozen


class RepairKind(StrEnum):
    """A way to change a request so that it can succeed."""

    SANITIZE = "sanitize"
    COMPACT = "compact"
    LOWER_OUTPUT_LIMIT = "lower output limit"
    MEND_HISTORY = "mend history"
    STRIP_MEDIA = "strip media"
    DROP_PARAMETER = "drop parameter"
    REFRESH_CREDENTIAL = "refresh credential"
    STREAM_OFF = "streaming off"


class FaultKind(Enum):
    """What went wrong, and what may be done: may it be retried, does another provider help, is it an outage."""

    # fmt: off
    #                       what                                               retry  falls_back  outage  repair
    CONNECT_FAILED        = ("the connection could not be made",               True,  True,  True,  None)
    DROPPED               = ("the connection was lost",                        True,  True,  True,  None)
    INCOMPLETE            = ("the stream ended without saying that it did",    True,  True,  True,  None)
    STALLED               = ("nothing was heard for too long",                 True,  True,  True,  None)
    TIMEOUT               = ("the call took longer than its deadline",         True,  True,  True,  None)
    OVERLOADED            = ("the provider is overloaded",                     True,  True,  True,  None)
    SERVER_ERROR          = ("the provider failed",                            True,  True,  True,  None)
    RATE_LIMITED          = ("too many requests or tokens in a time",          True,  True,  False, None)
    NO_SLOT               = ("the local rate limiter gave no slot",            True,  True,  False, None)
    MALFORMED             = ("the reply has no shape that can be read",        True,  True,  False, None)
    MISSPOKE              = ("the model wrote a tool call that cannot be read", False, True,  False, None)
    UNKNOWN               = ("something that has no name yet",                 True,  True,  False, None)
    QUOTA_SPENT           = ("the account's quota or credit is spent",         False, True,  False, None)
    ACCESS_DENIED         = ("the credential may not do this",                 False, True,  False, None)
    MODEL_NOT_FOUND       = ("the provider has no such model",                 False, True,  False, None)
    REFUSED               = ("the provider refuses this content",              False, True,  False, None)
    BAD_REQUEST           = ("the provider cannot accept this request",        False, True,  False, None)
    UNTRUSTED             = ("the server's certificate is not trusted",        False, True,  False, None)
    NOT_READY             = ("the provider could not be made ready",           False, True,  False, None)
    BAD_UNICODE           = ("the request holds text that UTF-8 cannot carry", False, True,  False, RepairKind.SANITIZE)
    CONTEXT_TOO_LONG      = ("the request is longer than the model can read",  False, True,  False, RepairKind.COMPACT)
    OUTPUT_LIMIT_TOO_HIGH = ("the output limit is above the model's",          False, True,  False, RepairKind.LOWER_OUTPUT_LIMIT)
    HISTORY_REFUSED       = ("the provider rejects the order of the messages", False, True,  False, RepairKind.MEND_HISTORY)
    MEDIA_REFUSED         = ("the provider rejects the media",                 False, True,  False, RepairKind.STRIP_MEDIA)
    PARAMETER_UNSUPPORTED = ("the provider does not know a parameter",         False, True,  False, RepairKind.DROP_PARAMETER)
    CREDENTIAL_EXPIRED    = ("the credential is no longer accepted",           False, True,  False, RepairKind.REFRESH_CREDENTIAL)
    STREAMING_UNSUPPORTED = ("the provider does not stream here",              False, True,  False, RepairKind.STREAM_OFF)
    CUT                   = ("the reply was cut at the output limit",          False, True,  False, None)
    EMPTY                 = ("the model says nothing",                         False, True,  False, None)
    BAD_TOOL_CALLS        = ("the model asks for nothing that can be run",     False, False, False, None)
    TOOL_LOOP             = ("the same tool calls go round and round",         False, False, False, None)
    INTERNAL              = ("this side failed: a port raised",                False, False, False, None)
    # fmt: on

    def __init__(
        self, sentence: str, retryable: bool, falls_back: bool, outage: bool, repair: RepairKind | None
    ) -> None:
        self.sentence = sentence
        self.retryable = retryable
        self.falls_back = falls_back
        self.outage = outage
        self.repair = repair

    @property
    def word(self) -> str:
        """The kind as it is written in trails and results."""
        return self.name.lower()


@frozen
class Fault:
    """One thing that went wrong outside, in our words.

    `retry_after_s` is the wait that the provider asked for, in seconds; `should_retry` is its own word on a retry
    (`x-should-retry`), None where it gave none. `parameter` and `limit` say what to change where that is known.
    """

    kind: FaultKind
    message: str = ""
    status: int | None = None
    retry_after_s: float | None = None
    should_retry: bool | None = None
    code: str = ""
    parameter: str = ""
    limit: int | None = None
    provider: str = field(default="", eq=False)
    request_id: str = field(default="", eq=False)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later; the provider's own word comes first."""
        if self.should_retry is None:
            return self.kind.retryable
        return self.should_retry and self.kind.repair is None and self.kind is not FaultKind.REFUSED

    @property
    def repair(self) -> RepairKind | None:
        """How the request can be changed so that it succeeds, if it can."""
        return self.kind.repair

    @property
    def falls_back(self) -> bool:
        """Whether another provider may do better."""
        return self.kind.falls_back

    @property
    def outage(self) -> bool:
        """Whether this passes by itself when one waits long enough."""
        return self.kind.outage

    @property
    def sentence(self) -> str:
        """The fault for a person."""
        return f"{self.kind.sentence}: {self.message}" if self.message else self.kind.sentence
