"""The words by which providers are known to tell of a failure: regular expressions for text in lower case.

Each constant is one meaning, each line of it one wording; which meaning goes before which is `classify.RULES`' affair.
"""

# ruff: noqa: E501  # a wording is one line

from __future__ import annotations

import re

CANNOT = (
    r"(?:not (?:\w+ )?(?:support|allow|permit|accept|enabled|valid)|unsupported|only supported|invalid|too (?:large|many|big|small)"
    r"|could not|couldn't|cannot|can't|unable to|failed to|exceed)"
)
MEDIA = r"(?:\bimages?\b|image_url|\bvision\b|multimodal|\baudio\b|media[ _]type)"
OUTPUT = r"max_(?:completion_|output_|new_)?tokens"
NAME = r"[`'\"\[]*([a-z_][\w.\[\]]*?)[`'\"\]]*"
END = r"(?:\s|$|[,;:.])"


def words(*wordings: str) -> re.Pattern[str]:
    """One expression for all of these wordings."""
    return re.compile("|".join(f"(?:{each})" for each in wordings), re.DOTALL)


REFUSED = words(
    r"content[_ ](?:filter|policy)",
    r"content management policy",
    r"responsible ?ai ?policy",
    r"safety system",
    r"usage polic",
    r"(?:was|been|is) flagged",
    r"new_sensitive",
    r"prohibited_content",
    r"\b(?:bio|cyber)\w*_policy",
    r"policy_violation",
    r"moderation",
)
DATA_POLICY = words(r"data policy", r"guardrail")
CAN_AFFORD = words(r"can only afford [1-9]")
ABOVE_A_MINUTE = words(r"request too large for .{0,120}tokens per")
COMES_BACK = words(
    r"resource_?exhausted",
    r"throttl",
    r"retryinfo",
    r"retry(?:ing)? (?:in|after) \d",
    r"try again in \d",
)
MONEY = words(
    r"insufficient[_ ](?:quota|credit|balance|fund)",
    r"exceeded your (?:current|monthly) quota",
    r"billing[_ ](?:details|hard|not|error)",
    r"no_usable_credits",
    r"usage_not_included",
    r"balance_depleted",
    r"payment[_ ]required",
    r"credit balance",
    r"out of credits",
    r"more credits",
    r"spending[_ -]limit",
    r"key limit exceeded",
)
CREDENTIAL = words(
    r"(?:invalid|incorrect|expired|missing)[_ ](?:x-)?api[_ -]?key",
    r"api key (?:not valid|expired)",
    r"api_key_invalid",
    r"authentication_error",
    r"(?:token|key|credential)s?(?: has| have| is)? expired",
    r"expired_token",
    r"unauthenticated",
)
OVERLOADED = words(
    r"overload",
    r"at capacity",
    r"no capacity",
    r"server (?:is )?busy",
    r"insufficient_system_resource",
    r"slow_down",
    r"loading model",
    r"model is (?:currently )?loading",
    r"temporarily unavailable",
)
RATE = words(
    r"throttl",
    r"rate[ _-]?limit",
    r"usage[_ ]limit",
    r"too many (?:requests|concurrent)",
    r"too many tokens, please",
    r"(?:requests|tokens) per (?:min|hour|day)",
)
LOST = words(
    r"stream (?:disconnected|closed|error)",
    r"disconnect",
    r"connection (?:reset|closed|lost|error|terminated|aborted)",
    r"peer closed",
    r"broken pipe",
    r"socket hang up",
    r"econnreset",
    r"unexpected eof",
    r"upstream connect",
)
BAD_UNICODE = words(r"surrogate", r"(?:not valid|invalid) (?:utf-8|unicode)", r"null byte", r"\\u0000 cannot")
MODEL_MISSPOKE = words(
    r"tool_use_failed",
    r"failed to call a function",
    r"malformed_function_call",
    r"failed to parse (?:input at pos|tool call|function call)",
)
NO_TOOLS = words(
    r"does(?: not|n't) support (?:tools|tool use|function)",
    r"no endpoints found that support tool",
)
NO_STREAMING = words(
    r"\bstream(?:ing)?\b.{0,60}(?:not (?:supported|allowed|available|enabled|permitted|implemented)|unsupported)",
    r"unsupported.{0,40}\bstream(?:ing)?\b",
    r"(?:does not|doesn't|cannot|can't) (?:be )?(?:support\w*|use\w*) (?:\w+ ){0,3}stream(?:ing|ed)?\b",
    r"verified to stream",
)
BOTH_TOO_LONG = words(r"input length and .?max_tokens")
OUTPUT_LIMIT = words(
    rf"{OUTPUT}.{{0,80}}(?:too (?:large|high|big)|at most|less than or equal|must be (?:less|between|<))",
    rf"{OUTPUT}.{{0,80}}(?:<=|> ?\d|exceed|greater than (?:the|model)|maximum)",
    rf"range of {OUTPUT}",
    r"supports at most \d+ (?:completion|output)",
    r"(?:\d+ in (?:the messages|your prompt)|\d+ of text input).{0,60}(?:completion|output)\)",
)
MEDIA_REFUSED = words(
    rf"{MEDIA}.{{0,80}}{CANNOT}",
    rf"{CANNOT}.{{0,80}}{MEDIA}",
    r"unknown variant .?image",
    r"(?:invalid|empty|unsupported|download)_(?:base64_)?image",
    r"\bimage_(?:file_)?(?:too_|parse_|not_found)",
    r"support image input",
)
PARAMETER = words(
    rf"unsupported parameters?:? {NAME}{END}",
    rf"unsupported value: {NAME} ",
    rf"(?:unrecognized|unknown|unexpected) (?:request )?(?:keyword )?(?:arguments?|parameters?|fields?|name)(?: supplied)?:? {NAME}{END}",
    rf"{NAME}:? extra inputs are not permitted",
    rf"property {NAME} is (?:unsupported|not supported)",
    rf"arguments? not supported[^:]{{0,40}}: {NAME}{END}",
    rf"parameters? {NAME} (?:is|are) not (?:supported|allowed|permitted)",
    rf"does not support (?:the )?(?:parameters? )?{NAME} parameter",
    r"[`'\"]([a-z_][\w.]*)[`'\"] (?:is|are) not (?:supported|allowed|permitted)",
    r"unsupported_parameter",
    r"unknown_parameter",
    r"unsupported_value",
    r"extra_forbidden",
    r"encrypted content is not supported",
)
HISTORY = words(
    r"tool_call_ids?",
    r"tool_use.{0,10}ids?\b",
    r"tool_result",
    r"tool_calls.{0,60}must be followed",
    r"role '?tool'?",
    r"tool messages? must",
    r"must alternate",
    r"(?:unexpected|invalid|unknown) role",
    r"assistant message must have",
    r"(?:first|last|final) message must",
    r"function (?:call|response) (?:turn|parts)",
    r"thinking.{0,40}(?:signature|block|must)",
    r"encrypted content",
    r"encrypted_content",
    r"no tool (?:output|call) found for function call",
    r"provided without its required",
    r"item with id .{0,100}not found",
    r"duplicate item found",
    r"jinja exception",
    r"empty (?:message|content)",
    r"content (?:field )?(?:is|must be non-?)empty",
    r"non-empty content",
    r"content blocks must (?:be non-empty|contain non-whitespace)",
    r"assistant message prefill",
)
TOO_LONG = words(
    r"context_length",
    r"context[ -](?:length|window|limit|size)",
    r"prompt (?:is )?too long",
    r"超长",
    r"input (?:is )?too long",
    r"too large for model",
    r"exceeds? (?:the )?(?:max_seq_len|max(?:imum)? (?:allowed )?(?:number of tokens|input|prompt|length|size))",
    r"maximum (?:prompt|input) length",
    r"model token limit",
    r"range of input length",
    r"string too long",
    r"string_above_max_length",
    r"reduce the length",
    r"too many (?:input )?tokens",
    r"input token count",
    r"max_tokens_exceeded",
    r"(?:request|payload|entity)[_ ](?:body )?too[_ ]large",
    r"exceeds the maximum size",
)
FORBIDDEN = words(r"permission_(?:error|denied)")
NO_SUCH_MODEL = words(
    r"model_not_(?:found|available|supported)",
    r"model\b.{0,120}(?:does not exist|not exist|not found|not available|not a valid|not supported|decommissioned|deprecated)",
    r"(?:no such|invalid|unknown|unsupported) model",
    r"no endpoints found",
    r"invalid_model",
    r"^model: \S+ not_found_error",
)
PLAINLY_BAD = words(
    r"invalid_request",
    r"bad_?request",
    r"invalid_argument",
    r"invalid_parameter",
    r"invalid_prompt",
    r"data_residency",
    r"\bvalidation",
)

# The output limit that would have been taken, where the text names it.
LIMIT = words(
    r"can only afford (\d+)",
    r"supports at most (\d+)",
    r"(?:at most|less than or equal to|<=|no more than|maximum (?:value|allowed)?(?: is| of| for)?:?) [`'\"]*(\d+)",
    r"\[\d+, ?(\d+)\]",
    rf"{OUTPUT}.{{0,40}}> ?(\d+)",
    r"(?:between|from) \d+ (?:and|to) (\d+)",
    rf"maximum {OUTPUT}[^\d]{{0,20}}(\d+)",
)
CONTEXT_SIZE = words(r"maximum context length is (\d+)")
PROMPT_SIZE = words(r"(\d+) in (?:the messages|your prompt)", r"(\d+) of text input", r"has (\d+) input tokens")
