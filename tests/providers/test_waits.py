"""How long a provider asks to wait."""

from __future__ import annotations

import pytest

from fsm_loop.providers.waits import wait_of

NOW = 1_735_689_600.0  # 2025-01-01 00:00:00 UTC
LATER = "Wed, 01 Jan 2025 00:00:10 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "1m2s"}, 62.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": LATER}, 10.0),
        ({"retry-after": LATER, "date": "Wed, 01 Jan 2025 00:00:04 GMT"}, 6.0),
        ({"retry-after": "Tue, 31 Dec 2024 23:59:59 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "730ms"}, 0.73),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "9s"}, 9.0),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "9s",
            },
            1.0,
        ),
        ({"x-ratelimit-reset": "1735689605"}, 5.0),
        ({"x-ratelimit-reset": "1735689605000"}, 5.0),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"retry-after": "3", "x-ratelimit-reset-tokens": "9s"}, 3.0),
    ],
)
def test_headers(headers, expected):
    """Retry-After comes before the reset of a window; what is no time, or no time to come, is no wait."""
    found = wait_of(429, headers, None, "", lambda: NOW)

    assert expected == pytest.approx(found) if expected is not None else found is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Rate limit reached. Please try again in 11.372s.", 11.372),
        ("Please try again in 730ms. Visit our site.", 0.73),
        ("please try again in 6m0s", 360.0),
        ("Please retry after 20 seconds.", 20.0),
        ("retry in 2 minutes", 120.0),
        ("try your request again in 1h2m3s", 3723.0),
        ("The limit of 30 seconds was reached", None),
        ("try again later", None),
        ("", None),
    ],
)
def test_words(words, expected):
    """Where no header says it, the text may."""
    assert expected == wait_of(429, {}, None, words)


def test_google_says_it_in_the_body():
    """RetryInfo is found however deep it stands."""
    body = [{"error": {"details": [{"@type": "x"}, {"@type": "RetryInfo", "retryDelay": "34.5s"}]}}]

    assert 34.5 == wait_of(429, {}, body, "")


def test_a_window_counts_only_when_it_is_full():
    """Servers send the reset of the window with every answer; it is a wait only behind a 429."""
    assert None is wait_of(400, {"x-ratelimit-reset-tokens": "9s"}, None, "")
