"""What a provider says of a failure, and what is never repeated of it."""

from __future__ import annotations

import pytest

from fsm_loop.providers.said import MAX_MESSAGE_CHARS, MAX_TEXT_CHARS, redacted, said_in, short

HTML = "<!DOCTYPE html><html><head><title>api.test | 524: A timeout</title></head><body><p>x</p></body></html>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "No."}}, "No."),
        ({"error": "No."}, "No."),
        ({"message": "No."}, "No."),
        ({"detail": "No."}, "No."),
        ({"detail": [{"loc": ["body", "x"], "msg": "No."}]}, "No."),
        ({"errors": [{"message": "No."}]}, "No."),
        ({"error": {"message": '{"error": {"message": "No."}}'}}, "No."),
        ([{"error": {"message": "No."}}], "No."),
        ('{"error": {"message": "No."}}', "No."),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"No."}}'}}}, "No."),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "No."}}}, "No."),
        (HTML, "api.test | 524: A timeout"),
        ("<p>Too <b>big</b></p>", "Too  big"),
        ("<style>a<b>c</STYLE >So<script>x</script> <script>y</script>is it<script>", "So   is it"),
        ("<title>Not said <p>So</p>", "Not said  So"),
        ("<TITLE lang='x'>So</Title><title>Other</title>", "So"),
        ({"error": {"message": "x" * 9000}}, "x" * MAX_TEXT_CHARS),
        ("No.", "No."),
        ("{half", "{half"),
        ({"error": {"message": "bad request"}}, "bad request"),
        ({}, ""),
        ([], ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_message_is_found(body, message):
    """Wherever the message stands, it is found; one that says nothing gives way to one further in."""
    assert message == said_in(body).message.strip()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 502}}, 502),
        ({"error": {"code": "429"}}, 429),
        ({"error": {"status": 400}}, 400),
        ({"error": {"code": 200}}, 0),
        ({"error": {"code": "4" * 6000}}, 0),
        ({"error": {"code": True}}, 0),
        ({"error": {"code": "rate_limit_exceeded"}}, 0),
        ({"object": "error", "code": 404}, 404),
    ],
)
def test_a_status_told_in_the_body_is_found(body, status):
    """A code that is a status is read as one; a real status comes before it."""
    assert status == said_in(body).status
    assert 418 == said_in(body, 418).status


def test_what_the_model_wrote_is_not_looked_through():
    """Words of the model, or of the user, are no words of the provider's on the failure."""
    said = said_in({"error": {"message": "Failed.", "failed_generation": "context length", "input": "image"}})

    assert "failed. failed." == said.text.strip().replace("  ", " ")


def test_a_body_without_bottom_is_read_to_a_limit():
    """Nesting has a limit, so that no body can exhaust the stack."""
    body = {"error": {}}
    for _ in range(5000):
        body = {"error": body}

    assert "" == said_in(body).message


@pytest.mark.parametrize(
    "text",
    [
        "key sk-proj-AbC123_xyz-456 was refused",
        "Authorization: Bearer s3cr3t-t0ken",
        "Illegal header value b'Bearer s3cr3t-t0ken'",
        "{'authorization': 's3cr3t-t0ken'}",
        "x-api-key: s3cr3t-t0ken",
        "cannot reach https://me:s3cr3t-t0ken@api.test/v1",
        "given: my-own-key",
    ],
)
def test_secrets_are_hidden(text):
    """Neither a secret that is known nor what looks like one is told."""
    hidden = redacted(text, ["my-own-key", ""])

    assert "***" in hidden
    assert not any(secret in hidden for secret in ("AbC123", "s3cr3t", "my-own-key"))


def test_text_without_secrets_stays():
    """A message that tells nothing secret is left alone, whatever empty or tiny secrets are known."""
    text = "model m does not exist at https://api.test/v1, none was found"

    assert text == redacted(text, ["", "m", "a", "\n"])


def test_messages_are_short():
    """A message is one line, and has a limit."""
    assert "a b c" == short("a\n b\t\tc ")
    assert MAX_MESSAGE_CHARS == len(short("x" * 10_000))
