"""What a person behind a client of MCP is asked of a waiting call: the words, the form, and what comes of the answer.

The protocol asks by forms of plain fields. Nothing but a form that was filled in as it was asked for lets a call run.
"""

import json
from collections.abc import Mapping
from typing import Literal, assert_never

from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.user_deltas import CallAnswer
from mcp.server.elicitation import render_elicitation_schema
from mcp_types import ElicitRequest, ElicitRequestFormParams
from pydantic import BaseModel, Field, ValidationError

from loopkernel_adapters.sessions.asked_calls import address_of, answer_to
from loopkernel_adapters.sessions.waiting_calls import WaitingCall


class ToApproval(BaseModel):
    """What a person says to a call."""

    answer: Literal["no", "yes"] = Field(description="yes lets exactly this call run; no does not")
    why: str = Field(default="", description="why not, which the agent is told")


class ToQuestion(BaseModel):
    """What a person says to the question of a running tool."""

    text: str = Field(description="your answer")


class AfterCrash(BaseModel):
    """What a person says to a call that was running when a process died."""

    answer: Literal["cancel", "rerun"] = Field(description="rerun runs it again; cancel does not")


Form = ToApproval | ToQuestion | AfterCrash


def form_of(call: WaitingCall) -> type[Form]:
    """What is to be filled in."""
    if call.question is not None:
        return ToQuestion
    return AfterCrash if call.after_crash else ToApproval


def request_of(call: WaitingCall) -> ElicitRequest:
    """The question and its form, as an answer of a tool asks it."""
    schema = render_elicitation_schema(form_of(call))
    return ElicitRequest(params=ElicitRequestFormParams(message=question_of(call), requested_schema=schema))


def question_of(call: WaitingCall) -> str:
    """What is asked: all that will run, in ASCII, so that nothing in it is unseen or looks like something else."""
    if call.question is not None:
        return f"The tool {_ascii(call.tool)} asks: {_ascii(call.question)}"
    given = _ascii(call.input.text) if isinstance(call.input, RawInput) else _pretty(call.input)
    why = " It was running when a process died, and nobody knows how far it came." if call.after_crash else ""
    return f"Is the call {address_of(call)} of the tool {_ascii(call.tool)} to run?{why} Its input, all of it:\n{given}"


def answer_of(call: WaitingCall, content: Mapping[str, object] | None) -> CallAnswer:
    """What the person has said; None, and whatever is not in the form that was asked for, is a no."""
    return answer_to(call, _said(call, content))


def _said(call: WaitingCall, content: Mapping[str, object] | None) -> Mapping[str, JsonValue]:
    try:
        form = None if content is None else form_of(call).model_validate(content)
    except ValidationError:
        form = None
    match form:
        case None:
            return {"answer": "decline" if call.question is not None else "cancel" if call.after_crash else "no"}
        case ToQuestion(text=text):
            return {"answer": "say", "text": text}
        case ToApproval(answer="no", why=why):
            return {"answer": "no", "why": why}
        case ToApproval(answer=answer) | AfterCrash(answer=answer):
            return {"answer": answer}
        case _:
            assert_never(form)


def _pretty(given: Json) -> str:
    return json.dumps(given.value(), indent=2)


def _ascii(text: str) -> str:
    return json.dumps(text)
