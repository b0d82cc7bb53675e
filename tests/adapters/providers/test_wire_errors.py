"""The one table of what goes wrong: every kind and status has its class, and every asked wait is bounded."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import ModelOperation
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.providers.wire_errors import (
    BY_KIND,
    CONNECTION_LOST,
    LONGEST_WAIT_MS,
    STREAM_CUT,
    TIMED_OUT,
    classify,
    failure,
    retry_after_ms,
)

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize(
    ("status", "kind", "code", "message", "error"),
    [
        (None, CONNECTION_LOST, None, "", ErrorClass.NETWORK),
        (None, STREAM_CUT, None, "", ErrorClass.NETWORK),
        (None, TIMED_OUT, None, "", ErrorClass.STALLED),
        (None, None, None, "", ErrorClass.UNKNOWN),
        (200, "overloaded_error", None, "", ErrorClass.OVERLOADED),
        (500, "overloaded_error", None, "", ErrorClass.OVERLOADED),  # by type first
        (429, "insufficient_quota", None, "", ErrorClass.AUTH),
        (429, "tokens", "rate_limit_exceeded", "", ErrorClass.RATE_LIMITED),
        (
            429,
            "tokens",
            "rate_limit_exceeded",
            "Request too large for gpt-x: Limit 3, Requested 4",
            ErrorClass.PROMPT_TOO_LONG,
        ),
        (401, "invalid_request_error", None, "", ErrorClass.AUTH),  # a vague type says less than the status
        (401, "invalid_request_error", "invalid_api_key", "", ErrorClass.AUTH),
        (400, "invalid_request_error", "context_length_exceeded", "", ErrorClass.PROMPT_TOO_LONG),
        (
            400,
            "invalid_request_error",
            None,
            "This model's maximum context length is 8 tokens",
            ErrorClass.PROMPT_TOO_LONG,
        ),
        (400, "invalid_request_error", None, "tools.0.name: invalid", ErrorClass.BAD_REQUEST),
        (None, "invalid_request_error", None, "", ErrorClass.BAD_REQUEST),
        (400, "invalid_request_error", "content_policy_violation", "", ErrorClass.REFUSED),
        (400, "exceed_context_size_error", None, "", ErrorClass.PROMPT_TOO_LONG),
        (404, None, None, "", ErrorClass.BAD_REQUEST),
        (413, None, None, "", ErrorClass.PROMPT_TOO_LONG),
        (418, None, None, "", ErrorClass.BAD_REQUEST),
        (500, None, None, "", ErrorClass.SERVER),
        (503, None, None, "", ErrorClass.OVERLOADED),
        (529, None, None, "", ErrorClass.OVERLOADED),
        (599, "brand_new", None, "", ErrorClass.SERVER),
        (200, "brand_new", None, "", ErrorClass.UNKNOWN),
        (302, None, None, "", ErrorClass.UNKNOWN),
    ],
)
def test_the_class_of_each_error(
    status: int | None, kind: str | None, code: str | None, message: str, error: ErrorClass
) -> None:
    assert classify(status=status, kind=kind, code=code, message=message) is error


@given(
    status=st.none() | st.integers(-5, 1_000),
    kind=st.none() | st.text() | st.sampled_from([*BY_KIND]),
    message=st.text(),
)
def test_whatever_a_server_says_becomes_words_of_bounded_length(
    status: int | None, kind: str | None, message: str
) -> None:
    delta = failure(ModelOperation(3), status=status, kind=kind, message=message * 200)
    assert delta.operation == 3
    assert 0 < len(delta.message) < 2_000
    assert "\n" not in delta.message
    assert delta.error is not ErrorClass.MAX_TOKENS


def date(seconds: int) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({}, None),
        ({"retry-after": "30"}, 30_000),
        ({"retry-after": " 0.25 "}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "12.5"}, 13),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2_000),
        ({"retry-after": date(90)}, 90_000),
        ({"retry-after": date(-90)}, 0),
        ({"retry-after": date(90), "date": date(60)}, 30_000),
        ({"retry-after": date(90), "date": "yesterday"}, 90_000),
        ({"retry-after": "Sun, 22 Nov 2026 12:00:05 -0000"}, 5_000),
        ({"retry-after": "1000000000"}, LONGEST_WAIT_MS),
        ({"retry-after": "9" * 400}, LONGEST_WAIT_MS),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST_WAIT_MS),
        ({"retry-after": "Sun, 22 Nov 2026 12:00:05 +9999"}, None),
        *(({"retry-after": text}, None) for text in ("", "-1", "nan", "inf", "1e9", "soon", "1 2", "٣", "+5", "0x1")),
    ],
)
def test_what_a_server_asks_to_wait(headers: dict[str, str], wait_ms: int | None) -> None:
    assert retry_after_ms(headers, NOW) == wait_ms


@given(
    text=st.text() | st.floats().map(str) | st.integers().map(str),
    name=st.sampled_from(["retry-after", "retry-after-ms"]),
)
def test_any_header_gives_a_bounded_wait_or_none(text: str, name: str) -> None:
    wait_ms = retry_after_ms({name: text})
    assert wait_ms is None or 0 <= wait_ms <= LONGEST_WAIT_MS
