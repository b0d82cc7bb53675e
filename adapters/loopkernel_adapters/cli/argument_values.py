"""What an argument of the command line may be, and what is wrong with it in words; a ValueError has them."""

import enum
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

from cyclopts import Token

LARGEST_NUMBER = 999_999_999
LARGEST_PORT = 65_535
VARIABLE_IN_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"([^=\s]+)=([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.+)")  # of a server: RFC 9110, section 5.6.2
Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=enum.Enum)
Converter: TypeAlias = Callable[[type, Sequence[Token]], Value]  # as cyclopts calls one


def count(text: str) -> int:
    """A whole number from 1 on. Raises ValueError."""
    return number(text, least=1)


def number(text: str, least: int = 0) -> int:
    """A whole number. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_NUMBER)) and int(text) >= least):
        raise ValueError(f"{text!r} is not a whole number from {least} to {LARGEST_NUMBER}")
    return int(text)


def port(text: str) -> int:
    """A port to listen to; 0 for any that is free. Raises ValueError."""
    found = number(text)
    if found > LARGEST_PORT:
        raise ValueError(f"{text!r} is not a port; give a number from 0 to {LARGEST_PORT}")
    return found


def count_or_all(text: str) -> int | str:
    """A whole number from 1 on, or `all`. Raises ValueError."""
    try:
        return text if text == "all" else count(text)
    except ValueError as error:
        raise ValueError(f"{error}, nor `all`") from error


def name(text: str) -> str:
    """Any text that can name something. Raises ValueError."""
    if "\0" in text or not text:
        raise ValueError("it is empty" if not text else "it holds a NUL character, which no name can")
    return text


def url(text: str) -> str:
    """An address of the web. Raises ValueError."""
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{text!r} begins neither with http:// nor with https://")
    return name(text)


def choice(kind: type[Choice]) -> Callable[[str], Choice]:
    """Reads one of these words and no other, where cyclopts would take `none` for an option that is not given."""

    def member(text: str) -> Choice:
        if text not in [each.value for each in kind]:
            raise ValueError(f"{text!r} is none of {', '.join(each.value for each in kind)}")
        return kind(text)

    return member


def path(text: str) -> Path:
    """A path. Raises ValueError."""
    return Path(name(text))


def secret(text: str) -> tuple[str, str]:
    """A name, and the environment variable that holds the value; never the value itself, which others could see."""
    called, sign, holder = text.partition("=")
    if not (called and sign and holder):
        raise ValueError("give a name and an environment variable, as in TOKEN=GITHUB_TOKEN")
    return called, variable(holder)


def variable(text: str) -> str:
    """The name of an environment variable. It is not repeated: it may be a value that was given by mistake."""
    if text not in os.environ:
        raise ValueError("there is no environment variable of the name given; export it first")
    return text


def server_variable(text: str) -> str:
    """The name of an environment variable, with that of the one server before it that gets it, or without."""
    server, sign, called = text.rpartition("=")
    if sign and not server:
        raise ValueError("it names no server before the =; give NAME=VARIABLE, or VARIABLE alone")
    variable(called)
    return text


def server_header(text: str) -> str:
    """The name of a server and a header; whose value names environment variables, since others see what is typed."""
    found = HEADER.fullmatch(text)
    if found is None:
        raise ValueError("give a server and a header, as in 'NAME=Authorization: Bearer {TOKEN}'")
    called = VARIABLE_IN_BRACES.findall(found[3])
    if not called:
        raise ValueError(
            "put the value into an environment variable, where nobody else sees it, and name that in braces, as in "
            "'NAME=Authorization: Bearer {TOKEN}'"
        )
    for each in called:
        variable(each)
    return text


# --- as cyclopts calls them --------------------------------------------------------------------------------


def one(kind: Callable[[str], Value]) -> Converter[Value]:
    """Converts the one text that an argument is given."""
    return lambda wanted, tokens: kind(tokens[0].value)


def each(kind: Callable[[str], Value]) -> Converter[tuple[Value, ...]]:
    """Converts each text of an option that may be given several times."""
    return lambda wanted, tokens: tuple(kind(token.value) for token in tokens)
