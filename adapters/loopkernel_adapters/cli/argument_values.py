"""What an argument of the command line may be: each of these reads one, or says in words what is wrong with it."""

import argparse
import os
from pathlib import Path

LARGEST_NUMBER = 999_999_999


def count(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError."""
    return number(text, least=1)


def number(text: str, least: int = 0) -> int:
    """A whole number. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_NUMBER)) and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {LARGEST_NUMBER}")
    return int(text)


def name(text: str) -> str:
    """Any text that can name something. Raises ArgumentTypeError."""
    if "\0" in text or not text:
        raise argparse.ArgumentTypeError("it is empty" if not text else "it holds a NUL character, which no name can")
    return text


def url(text: str) -> str:
    """An address of the web. Raises ArgumentTypeError."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} begins neither with http:// nor with https://")
    return name(text)


def path(text: str) -> Path:
    """A path. Raises ArgumentTypeError."""
    return Path(name(text))


def secret(text: str) -> tuple[str, str]:
    """A name, and the environment variable that holds the value; never the value itself, which others could see."""
    called, sign, holder = text.partition("=")
    if not (called and sign and holder):
        raise argparse.ArgumentTypeError("give a name and an environment variable, as in TOKEN=GITHUB_TOKEN")
    return called, variable(holder)


def variable(text: str) -> str:
    """The name of an environment variable. It is not repeated: it may be a value that was given by mistake."""
    if text not in os.environ:
        raise argparse.ArgumentTypeError("there is no environment variable of the name given; export it first")
    return text
