"""The entry of the command line. It imports next to nothing, so that Ctrl-C is told in words almost from the start."""

import sys
from collections.abc import Sequence

INTERRUPTED, MISSING = 1, 2  # exit statuses


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (by default, those of the process) ask for; its exit status."""
    try:
        from loopkernel_adapters.cli.commands import run_command_line  # which takes a third of a second

        return run_command_line(arguments)
    except ModuleNotFoundError as error:
        if error.name != "cyclopts":
            raise
        print("loopkernel: the command line is an extra: pip install 'loopkernel[cli]'", file=sys.stderr)
        return MISSING
    except (KeyboardInterrupt, RuntimeError) as error:
        if not _is_interrupt(error):
            raise
        print("loopkernel: interrupted", file=sys.stderr)
        return INTERRUPTED


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or what became of it where a class was being made (until Python 3.12, a RuntimeError)."""
    return isinstance(error, KeyboardInterrupt) or (error is not None and _is_interrupt(error.__cause__))


if __name__ == "__main__":
    sys.exit(main())
