"""Whether requests, results and the thread are as a scenario expects."""

from collections.abc import Iterable, Iterator, Sequence

from loopkernel.data.blocks import ToolResult, text_of
from loopkernel.data.effects import Request
from loopkernel.loop.algorithms.projection import project
from loopkernel.testing.scenarios.data.expectations import (
    Expectations,
    ExpectedRequest,
    ExpectedResult,
    ExpectedThread,
)
from loopkernel.testing.scenarios.data.world import Role
from loopkernel.testing.scenarios.judging.seen_text import blocks_of, role_of, roles_of, text_in
from loopkernel.testing.scenarios.player.recording import Recording


def request_differences(expect: Expectations, run: Recording) -> Iterator[str]:
    """The number of requests, and what each named one holds."""
    requests = run.requests
    if expect.requests is not None and expect.requests != len(requests):
        yield f"`requests`: expected {expect.requests}, saw {len(requests)}"
    for number, expected in expect.request.items():
        found = next((request for request in requests if request.number == number), None)
        if found is None:
            yield f"request {number}: there is none; {len(requests)} were made"
        else:
            yield from _request(f"request {number}", expected, found, run)


def _request(where: str, expected: ExpectedRequest, request: Request, run: Recording) -> Iterator[str]:
    yield from _settings(where, expected, request)
    messages = project(request.thread, request.model)
    roles = roles_of(Role(message.role.value) for message in messages)
    yield from _roles(where, expected.roles, roles)
    if expected.messages is not None and expected.messages != len(messages):
        yield f"{where}: expected {expected.messages} messages, saw {len(messages)}"
    if expected.results is not None:
        blocks = [block for message in messages for block in message.content]
        found = [run.names.name_of(block.call) for block in blocks if isinstance(block, ToolResult)]
        if found != list(expected.results):
            yield f"{where}: expected the results of {_listed(expected.results)}, saw {_listed(found)}"
    texts = [request.instructions, *(text_in(message.content) for message in messages)]
    yield from _texts(where, expected.contains, expected.lacks, "\n".join(texts))
    last = texts[-1] if messages else ""
    for text in expected.last:
        if text not in last:
            yield f"{where}: expected `{text}` in its last message, which reads `{_cut(last)}`"


def _settings(where: str, expected: ExpectedRequest, request: Request) -> Iterator[str]:
    """All that stands beside the messages."""
    if expected.why is not None and expected.why is not request.reason:
        yield f"{where}: expected why {expected.why.value}, saw {request.reason.value}"
    offered = {tool.name for tool in request.tools}
    if expected.tools is not None and expected.tools != offered:
        yield f"{where}: expected the tools {_listed(sorted(expected.tools))}, saw {_listed(sorted(offered))}"
    for tool in expected.lacks_tools:
        if tool in offered:
            yield f"{where}: expected the tool {tool} not to be offered, and it is"
    limit = "none" if request.max_output_tokens is None else request.max_output_tokens
    if expected.max_output_tokens not in (None, limit):
        yield f"{where}: expected max_output_tokens {expected.max_output_tokens}, saw {limit}"
    if expected.model not in (None, request.model):
        yield f"{where}: expected model {expected.model}, saw {request.model}"
    forced = request.forced_tool or "none"
    if expected.forced_tool not in (None, forced):
        yield f"{where}: expected the forced tool {expected.forced_tool}, saw {forced}"


def result_differences(expect: Expectations, run: Recording) -> Iterator[str]:
    """How calls were answered."""
    results = run.results
    for call, expected in expect.results.items():
        if call in results:
            yield from _result(call, expected, results[call], run)
        else:
            yield f"`results`: {call} was never answered"


def _result(call: str, expected: ExpectedResult, result: ToolResult, run: Recording) -> Iterator[str]:
    where = f"the result of {call}"
    reason = "none" if result.reason is None else result.reason.value
    if expected.status is not None and expected.status is not result.status:
        why = "" if result.reason is None else f" ({reason})"
        yield f"{where}: expected status {expected.status.value}, saw {result.status.value}{why}"
    if expected.reason not in (None, reason):
        yield f"{where}: expected reason {expected.reason}, saw {reason}"
    yield from _texts(where, expected.contains, expected.lacks, text_of(result.content))
    runs = sum(one.call == call for one in run.runs)
    if expected.ran is not None and expected.ran is not (runs > 0):
        yield f"{where}: expected that {call} {'ran' if expected.ran else 'did not run'}, saw {runs} runs"
    if expected.runs not in (None, runs):
        yield f"{where}: expected {expected.runs} runs, saw {runs}"


def thread_differences(expected: ExpectedThread, run: Recording) -> Iterator[str]:
    """The thread at the end; a message that holds nothing, as an empty reply, does not count."""
    session = run.last_state.session
    messages = [] if session is None else [message for message in session.thread if blocks_of(message)]
    where = "the thread at the end"
    yield from _roles(where, expected.roles, roles_of(role_of(message) for message in messages))
    if expected.messages is not None and expected.messages != len(messages):
        yield f"{where}: expected {expected.messages} messages, saw {len(messages)}"
    text = "\n".join(text_in(blocks_of(message)) for message in messages)
    yield from _texts(where, expected.contains, expected.lacks, text)


def _roles(where: str, expected: Sequence[Role] | None, found: Sequence[Role]) -> Iterator[str]:
    if expected is not None and tuple(expected) != tuple(found):
        wanted = _listed(role.value for role in expected)
        yield f"{where}: expected the roles {wanted}, saw {_listed(role.value for role in found)}"


def _texts(where: str, contains: Iterable[str], lacks: Iterable[str], found: str) -> Iterator[str]:
    for text in contains:
        if text not in found:
            yield f"{where}: expected `{text}` in it, and it reads `{_cut(found)}`"
    for text in lacks:
        if text in found:
            yield f"{where}: expected no `{text}` in it, and it is there"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _cut(text: str) -> str:
    """The text on one line, its middle left out where it is long."""
    line = " / ".join(text.split("\n"))
    return line if len(line) <= 300 else f"{line[:150]} ... {line[-150:]}"
