"""`loopkernel doctor`: what is installed here, which models can be asked, and what holds the commands of a shell."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.user_settings import SETTINGS, settings_file, variable_of

# What each extra brings that its part of the program cannot do without.
EXTRAS = {
    "cli": "prompt-toolkit",
    "tools": "pydantic",
    "anthropic": "anthropic",
    "openai": "openai",
    "pydantic-ai": "pydantic-ai-slim",
    "mcp": "mcp",
    "acp": "agent-client-protocol",
    "server": "starlette",
    "transcripts": "pyyaml",
    "postgres": "psycopg",
    "temporal": "temporalio",
    "telemetry": "opentelemetry-sdk",
    "testing": "hypothesis",
    "local": "xllamacpp",
}
KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}


def examine(screen: Screen) -> ExitStatus:
    """Tell it all, and what to do about what is missing; the status is 1 where what is there does not work."""
    screen.labelled("loopkernel", f"{_version('loopkernel') or 'from its sources'}, Python {platform.python_version()}")
    for extra, package in EXTRAS.items():
        found = _version(package)
        screen.labelled(extra, f"{package} {found}" if found else f"not installed: pip install 'loopkernel[{extra}]'")
    for vendor, variables in KEYS.items():
        given = [name for name in variables if os.environ.get(name, "").strip()]
        told = f"{given[0]} is set" if given else f"there is no key: put it into the environment as {variables[0]}"
        screen.labelled("key", f"{vendor}: {told}")
    _tell_settings(screen)
    works = _tell_model(screen)
    _tell_isolation(screen)
    return ExitStatus.NATURAL_END if works else ExitStatus.OTHER_END


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tell_settings(screen: Screen) -> None:
    path = settings_file()
    screen.labelled("settings", f"{path}{'' if path.exists() else ' (there is none)'}")
    for variable in map(variable_of, SETTINGS):
        if os.environ.get(variable, "").strip():
            screen.labelled("", f"{variable} is set, and counts before the file")


def _tell_model(screen: Screen) -> bool:
    """Load the embedded model, where it is installed; False where that fails."""
    from loopkernel_adapters.providers.local.provider import MODEL_NAME, LocalProvider, ModelMissing, find_model

    try:
        find_model()
    except ModelMissing as error:
        screen.labelled("model", str(error))
        return True
    try:
        LocalProvider.load().close()
    except ModelMissing as error:
        screen.labelled("model", str(error))
        return False
    screen.labelled("model", f"{MODEL_NAME} loads, and answers: --model local")
    return True


def _tell_isolation(screen: Screen) -> None:
    from loopkernel_adapters.tools.processes import strongest_confinement
    from loopkernel_adapters.tools.sandbox import Sandbox, SandboxUnavailable

    screen.labelled("processes", f"those of a command are held together by {strongest_confinement().confinement.value}")
    try:
        Sandbox(workspace=Path.cwd().resolve()).confined()
    except SandboxUnavailable as error:
        screen.labelled("sandbox", f"there is none: {error}")
    else:
        screen.labelled("sandbox", "bubblewrap works here: --sandbox")
