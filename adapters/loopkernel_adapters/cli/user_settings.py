"""What a user has said once for all sessions that begin: in the environment, or in a file of their own.

    # ~/.config/loopkernel/config.toml
    model = "anthropic:NAME"
    max-turns = 30

What is typed counts first, then the variable (LOOPKERNEL_MODEL, LOOPKERNEL_MAX_TURNS), then the file. No file in a
workspace is read, since others may have written it; and nothing here can approve a call, or say where a key is sent.
"""

import argparse
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.options import ToolSet
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.stores.seals import configuration_folder

FILE = "config.toml"
PREFIX = "LOOPKERNEL_"
BEGINNINGS = frozenset({"run", "chat", "continue", "acp", "worker"})  # what is gone on with stays as it was begun


def _tools(text: str) -> str:
    if text not in [choice.value for choice in ToolSet]:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choice.value for choice in ToolSet)}")
    return text


KINDS: Mapping[str, Callable[[str], object]] = {
    "model": values.name,
    "policy": values.name,
    "tools": _tools,
    "instructions": values.name,
    "max_turns": values.count,
    "max_total_tokens": values.count,
    "retries": values.number,
}


def settings_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is, or would be."""
    return configuration_folder(environment) / FILE


def with_settings(given: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """What was typed, and of a session that begins, what the user has said otherwise. Raises Unusable."""
    if given.command not in BEGINNINGS:
        return given
    in_file = _of_file(settings_file(environment))
    for name, kind in KINDS.items():
        if getattr(given, name) is not None:
            continue
        variable, option = f"{PREFIX}{name.upper()}", name.replace("_", "-")
        text = environment.get(variable, "").strip()
        where = f"the environment variable {variable}"
        if not text and option in in_file:
            text, where = in_file[option], f"{option} in {settings_file(environment)}"
        if text:
            try:
                setattr(given, name, kind(text))
            except argparse.ArgumentTypeError as error:
                raise Unusable(f"{where} cannot be used: {error}") from error
    return given


def _of_file(path: Path) -> dict[str, str]:
    """What the file says, as texts; nothing where there is none."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"the settings in {path} cannot be read: {error}; mend the file, or take it away") from error
    except OSError as error:
        raise Unusable(f"the settings in {path} cannot be read: {error.strerror}; make it readable") from error
    known = [name.replace("_", "-") for name in KINDS]
    for name, value in found.items():
        if name not in known:
            raise Unusable(f"{path} sets {name!r}, which is none of the settings: {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Unusable(f"{name} in {path} has to be a text or a whole number")
    return {name: str(value) for name, value in found.items()}
