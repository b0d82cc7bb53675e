"""Changing a part of a file: an exact text takes the place of another, and all else keeps every byte."""

from loopkernel.data.json_text import safe_text

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.files import MOST_WRITTEN, FileSeen, Workspace, read_at_most
from loopkernel_adapters.tools.paths import shown_path, shown_size

_FEW_LINES = 5  # that are named where a text is found more than once


def edit(workspace: Workspace, path: str, old_text: str, new_text: str, *, every: bool = False) -> str:
    """Put `new_text` in the place of the one `old_text` of a file, or of `every` one; what was done, in words.

    Where all lines of the file end with CR LF, the two texts may have LF instead. Raises ToolError, and then the
    file is as it was: not found, found more than once, no UTF-8, changed meanwhile, not writable.
    """
    content, seen = _content(workspace, path)
    changed, count = replaced(content, path, old_text, new_text, every=every)
    workspace.rewrite(path, changed, seen)
    return (
        f"Replaced {count} {'place' if count == 1 else 'places'} of {shown_path(path)}, now {shown_size(len(changed))}."
    )


def replaced(content: bytes, path: str, old_text: str, new_text: str, *, every: bool) -> tuple[bytes, int]:
    """What the file then holds, and in how many places it is new. Raises ToolError, as `edit`."""
    if not old_text:
        raise ToolError("the text to replace is empty; write_file makes a whole file")
    if old_text == new_text:
        raise ToolError("the text to replace and the new one are the same; nothing was changed")
    old, new = safe_text(old_text).encode(), safe_text(new_text).encode()
    if _ends_with_cr_lf(content):
        old, new = _with_cr_lf(old), _with_cr_lf(new)
    count = content.count(old)
    if count == 0:
        raise ToolError(_not_found(path, content, old))
    if count > 1 and not every:
        raise ToolError(
            f"{shown_path(path)} holds this text {count} times, in lines {_lines_of(content, old)}; give more of the "
            "text around the one that is meant, or set replace_all"
        )
    size = len(content) + count * (len(new) - len(old))
    if size > MOST_WRITTEN:  # before it is made: a short text that stands often, and a long one for it, fill the memory
        raise ToolError(f"{shown_path(path)} would have {size} bytes; at most {MOST_WRITTEN} can be written")
    changed = content.replace(old, new)
    return changed, count


def _content(workspace: Workspace, path: str) -> tuple[bytes, FileSeen]:
    with workspace.opened_file(path) as descriptor:
        seen = FileSeen.of_descriptor(descriptor)
        content = read_at_most(descriptor, MOST_WRITTEN + 1)
    if len(content) > MOST_WRITTEN:
        raise ToolError(
            f"{shown_path(path)} has more than {MOST_WRITTEN} bytes, too many to be edited here; use a program"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{shown_path(path)} is not UTF-8 text (byte {error.start} is {content[error.start]:#04x}), so it is left "
            "as it is"
        ) from None
    return content, seen


def _ends_with_cr_lf(content: bytes) -> bool:
    ends = content.count(b"\n")
    return ends > 0 and content.count(b"\r\n") == ends


def _with_cr_lf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _not_found(path: str, content: bytes, old: bytes) -> str:
    words = f"{shown_path(path)} does not hold this text; nothing was changed. "
    loosely = b" ".join(old.split())
    if loosely and loosely in b" ".join(content.split()):
        return words + "It does with other spaces, tabs or line ends: read the file and give the text exactly"
    return words + "Read the file and give the text exactly as it stands there"


def _lines_of(content: bytes, old: bytes) -> str:
    lines: list[int] = []
    place = content.find(old)
    while place >= 0 and len(lines) <= _FEW_LINES:
        lines.append(content.count(b"\n", 0, place) + 1)
        place = content.find(old, place + len(old))
    return ", ".join(map(str, lines[:_FEW_LINES])) + (" and more" if len(lines) > _FEW_LINES else "")
