"""The context of a run whose tool has nothing to say and nothing to ask."""

from typing import Never

from loopkernel_adapters.ports import RunContext
from typing_extensions import override


class SilentContext(RunContext):
    """Fails the run that uses it."""

    @override
    async def report_progress(self, text: str) -> Never:
        raise AssertionError(f"this tool tells no progress, but said {text}")

    @override
    async def ask(self, question: str) -> Never:
        raise AssertionError(f"this tool asks nothing, but asked {question}")

    @override
    async def go_on_in_background(self, handle: str) -> Never:
        raise AssertionError("this tool does not go on in the background")


SILENT = SilentContext()
