"""The frameworks that are judged in this process: which release of each, and which player plays it."""

from importlib import metadata

from tests.differential.environments import Environment


def _framework(name: str, package: str, version: str) -> Environment:
    module = name.replace("-", "_")
    return Environment(
        name=name, package=package, version=version, player=f"tests.differential.frameworks.play_{module}"
    )


FRAMEWORKS = {
    "strands": _framework("strands", "strands-agents", "1.62.0"),
    "openai-agents": _framework("openai-agents", "openai-agents", "0.24.0"),
    "pydantic-ai": _framework("pydantic-ai", "pydantic-ai-slim", "2.68.0"),
    "langgraph": _framework("langgraph", "langgraph", "1.2.22"),
    "agno": _framework("agno", "agno", "3.1.10"),
}
OURS = Environment(
    name="loopkernel",
    package="loopkernel",
    version=metadata.version("loopkernel"),
    player="tests.differential.frameworks.play_loopkernel",
    own=True,
)
AGENTS = {"loopkernel": OURS, **FRAMEWORKS}
STREAMING = {"loopkernel", "strands"}  # their models are asked for a stream
WITHOUT_WAITS = {"strands"}  # a model of theirs cannot say how long to wait
