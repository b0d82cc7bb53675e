"""The program that searches texts for a regular expression: a process of its own, since Python cannot stop a search.

It is run by its path, isolated and without site packages, so it imports the standard library alone. It reads frames
from its standard input, each a length (4 bytes, most significant first) and that many bytes, and answers each with one:

1. `{"pattern": ..., "ignore_case": ..., "most": n, "longest": n, "memory": bytes, "seconds": n}`; the answer is `null`,
   or why the pattern is none.
2. Then texts, as many as there are; the answer to each is `[[line, column, text], ...]`: the lines that match, from 1,
   and of each at most `longest` characters around the match. After `most` lines in all, no more are given.
"""

import json
import re
import sys


def answer(value: object) -> None:
    """Send one frame."""
    content = json.dumps(value).encode("ascii")
    sys.stdout.buffer.write(len(content).to_bytes(4, "big") + content)
    sys.stdout.buffer.flush()


def question() -> bytes | None:
    """The next frame; None at the end."""
    length = sys.stdin.buffer.read(4)
    return sys.stdin.buffer.read(int.from_bytes(length, "big")) if len(length) == 4 else None


def limit(memory: int, seconds: int) -> None:
    """Bound what a hostile pattern can take, also where nobody is left to end this process."""
    try:
        import resource
    except ImportError:  # no Unix
        return
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # a lower limit holds already
            continue


def matches(pattern: "re.Pattern[str]", text: str, most: int, longest: int) -> list[tuple[int, int, str]]:
    """The first lines of the text that match."""
    found: list[tuple[int, int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = pattern.search(line.removesuffix("\r"))
        if match is not None:
            start = max(0, min(match.start() - longest // 4, len(line) - longest))
            found.append((number, match.start() + 1, line[start : start + longest].removesuffix("\r")))
            if len(found) >= most:
                break
    return found


def main() -> None:
    """Answer frames until there are no more."""
    first = question()
    if first is None:
        return
    wanted = json.loads(first)
    limit(wanted["memory"], wanted["seconds"])
    try:
        pattern = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answer(f"{error}" or type(error).__name__)
        return
    answer(None)
    left: int = wanted["most"]
    while (content := question()) is not None:
        found = matches(pattern, content.decode("utf-8", "replace"), left, wanted["longest"]) if left else []
        left -= len(found)
        answer(found)


if __name__ == "__main__":
    main()
