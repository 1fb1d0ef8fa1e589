"""Text in its disguise: as long, of the same shape, never the same, and alike where two texts are alike."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from fsm_loop.testing.wire.disguise import Disguise
from fsm_loop.testing.wire.disguised_body import Bodies

DISGUISE = Disguise(b"a key for tests")
TEXTS = [
    "Dear John,\n call 0171 7654321!",
    "a",
    "Überweisung für José",
    "山東 太郎",
    "𠀀𠀁 \ud83d \0",
    "",
    " \t",
    "🙂 — …",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_keeps_its_shape_and_nothing_else(text):
    """As many bytes, the same signs and spaces, and no letter or digit of what it was."""
    new = DISGUISE.turned(text)
    pairs = [*zip(text, new, strict=True)]

    assert len(text.encode("utf-8", "surrogatepass")) == len(new.encode("utf-8", "surrogatepass"))
    assert all((one == two) == (not one.isalnum()) for one, two in pairs if one.isascii())
    assert all(one == two for one, two in pairs if not one.isalnum())
    assert all(one.isupper() == two.isupper() for one, two in pairs if one.isascii())


def test_texts_stay_as_different_as_they_were():
    """Two that begin alike still do, two that differ still do, and another key makes another disguise."""
    ids = [f"call_{number}" for number in range(200)]
    new = [DISGUISE.id(each) for each in ids]

    assert len(set(ids)) == len(set(new))
    assert all(each.startswith("call_") for each in new)
    assert DISGUISE.turned("Hello world").startswith(DISGUISE.turned("Hello"))
    assert DISGUISE.turned("Hello world") != Disguise(b"another").turned("Hello world")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Rate limit reached for gpt-4o, try again in 20s", "Rate limit reached for gpt-4o, try again in 20s"),
        ("maximum context length is 128000 tokens", "maximum context length is 128000 tokens"),
        ("no such user Quillfeather", "no such user "),
        ("account 12345678", "account "),
        ("write to support@model.example", "write to "),
        ("Incorrect API key: sk-0123456789abcdef", "Incorrect API key: "),
        ("Authorization: Bearer the-tokens-are-many", "Bearer "),
    ],
)
def test_an_error_keeps_the_words_of_errors(text, kept):
    """Words of which errors are made stay, and numbers that are limits; names, addresses and credentials do not."""
    new = DISGUISE.error(text, {"gpt", "o"})

    assert kept in new
    assert (text == kept) == (text == new)
    assert len(text) == len(new)


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-0123456789", "AIza0123456789abcdef", "eyJhbGciOiJI.eyJzdWIi.c2ln", "hunter2hunter2", "Bearer 0123456789", "https://me:password@host/"],
)  # fmt: skip
def test_a_credential_goes_even_where_texts_are_kept(secret):
    """Those that look like one, and those whose value is known; what stands around them stays."""
    keeping = Disguise(b"key", secrets=["hunter2hunter2"], keep_text=True)
    new = keeping.text(f"my key is {secret} ok")

    assert new.startswith("my key is ")
    assert new.endswith(" ok")
    assert secret not in new
    assert "nothing of the kind" == keeping.text("nothing of the kind")


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ('{"city": "Oslo", "days": 3, "phone": 4915123456}', {"city": str, "days": int, "phone": int}),
        ('{"city": "{\\"city\\": \\"Oslo\\"}"}', {"city": str}),
        ('{"city": ["Oslo", null, true, -1.5e10]}', {"city": list}),
    ],
)
def test_arguments_stay_json(arguments, shape):
    """Keys that a tool has stay, values become others of their type, and a long number is another one."""
    new = json.loads(DISGUISE.json(arguments, {"city", "days", "phone"}))

    assert shape == {name: type(value) for name, value in new.items()}
    assert "Oslo" not in json.dumps(new)
    assert "4915123456" not in json.dumps(new)
    assert "days" not in new or new["days"] == 3


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_a_reply_in_pieces_is_disguised_as_the_reply_in_one(size):
    """However it is cut, the pieces join to the same text, and so does a call's arguments."""
    text, arguments = 'Dear José, 山東 \n "quoted" \\ end', '{"city": "Oslo", "who": "\\u00e9mile \\ud83d\\ude42"}'
    whole = _streamed([text], [arguments])

    assert whole == _streamed(_cut(text, size), _cut(arguments, size))
    assert "José" not in whole[0]
    assert ["city"] == [key for key in json.loads(whole[1]) if key != DISGUISE.turned("who")]


def test_a_reply_that_is_told_again_and_again():
    """Where each piece holds the one before, it still does."""
    texts, _ = _chunks(["He", "Hello", "Hello wo", "Hello world"], [])

    assert all(two.startswith(one) for one, two in pairwise(texts))


def test_tools_that_were_offered_keep_their_names():
    """Also in pieces, and also twice; a name that nobody has offered is a text like any other."""
    assert ["look", "lo", "ok", "looklook"] == [
        DISGUISE.name(each, {"look"}) for each in ("look", "lo", "ok", "looklook")
    ]
    assert "Wisteria" != DISGUISE.name("Wisteria", {"look"})


@pytest.mark.parametrize("end", range(0, 120, 7))
def test_a_body_that_is_cut_anywhere(end):
    """As many bytes, and nothing of the text, wherever the cut is; bytes that are no text stay."""
    body = b'data: {"choices":[{"delta":{"content":"Canarius \\u00e9 Canarius"}}]}\n\ndata: Canarius\n\n\xff\xc3'
    new = Bodies(DISGUISE).disguised(body[:end], events=True)

    assert len(body[:end]) == len(new)
    assert b"Canari" not in new


def _cut(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


def _streamed(texts, arguments):
    """The text and the arguments of a stream, in their disguise, joined."""
    return tuple("".join(each) for each in _chunks(texts, arguments))


def _chunks(texts, arguments):
    deltas = [{"content": each} for each in texts]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": each}}]} for each in arguments]
    body = "".join(f"data: {json.dumps({'choices': [{'index': 0, 'delta': each}]})}\n\n" for each in deltas)
    new = Bodies(DISGUISE, keys={"city"}).disguised(body.encode(), events=True).decode()
    found = [json.loads(line[6:])["choices"][0]["delta"] for line in new.splitlines() if line]
    return (
        [each["content"] for each in found if "content" in each],
        [each["tool_calls"][0]["function"]["arguments"] for each in found if "tool_calls" in each],
    )
