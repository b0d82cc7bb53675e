"""What a user has said once for all sessions that begin: in the environment, or in a file of their own.

    # ~/.config/loopkernel/config.toml
    model = "anthropic:NAME"
    max-turns = 30

What is typed counts first, then the variable (LOOPKERNEL_MODEL, LOOPKERNEL_MAX_TURNS), then the file. No file in a
workspace is read, since others may have written it; and nothing here can approve a call, or say where a key is sent.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from cyclopts import App, ArgumentCollection, Token

from loopkernel_adapters.cli.outcomes import Unusable

FILE = "config.toml"
PREFIX = "LOOPKERNEL_"
SETTINGS = ("model", "policy", "tools", "instructions", "max-turns", "max-total-tokens", "retries")


def settings_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is, or would be."""
    from loopkernel_adapters.stores.seals import configuration_folder  # which imports the loop; the help needs none

    return configuration_folder(environment) / FILE


def add_settings(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give the options of a session that begins what the user has said otherwise than by typing. Raises Unusable."""
    in_file = _of_file(settings_file())
    for name in SETTINGS:
        argument = arguments[f"--{name}"]
        variable = variable_of(name)
        text, source = os.environ.get(variable, "").strip(), f"the environment variable {variable}"
        if not text and name in in_file:
            text, source = in_file[name], f"{name} in {settings_file()}"
        if text and not argument.tokens:
            argument.append(Token(keyword=f"--{name}", value=text, source=source))


def variable_of(name: str) -> str:
    """The environment variable that holds the setting."""
    return f"{PREFIX}{name.upper().replace('-', '_')}"


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
    for name, value in found.items():
        if name not in SETTINGS:
            raise Unusable(f"{path} sets {name!r}, which is none of the settings: {', '.join(SETTINGS)}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Unusable(f"{name} in {path} has to be a text or a whole number")
    return {name: str(value) for name, value in found.items()}
