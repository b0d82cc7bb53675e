"""Text that others have chosen, shown so that it can neither paint over the question nor pass for something else.

What cannot be told apart on a screen is marked: runs of blanks as their length, line breaks, tabs, and each character
that hides, turns the writing round or looks like another as its number. The signs of these marks are marked
themselves, so none can be forged. Lines are broken here, and a line that goes on is marked, so no text begins one.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import Json, JsonValue, exact_text

_MOST_MARKS = 2  # accents and the like on one letter
MOST_NAMED = 4  # kinds of odd characters that are told by name
LONGEST_NAME = 60  # columns of the name of a tool
_RAW_END = 20_000  # characters of a text's beginning and of its end that are looked at where it is not shown whole
_BUDGETS = (4_000, 2_000, 1_200, 800, 500, 300, 200, 120, 80, 50, 30)  # columns for each value

# Characters that show nothing, though Unicode counts them as letters, marks or signs.
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_QUOTES = (
    "\u00ab\u00b4\u00bb\u02b9-\u02bd\u02c8\u02ca\u02cb\u02dd\u02ee\u02f4\u02f6\u05f3\u05f4\u07f4\u07f5\u1fef\u1ffd\u2018-\u201f"
    "\u2032-\u2037\u2057\u275b-\u275e\u2e42\u300c-\u300f\u301d-\u301f\u3003\ua78b\ua78c\uff02\uff07\uff40"
)
_OUR_SIGNS = "␠⏎⇥\u2039\u203a↪"
_ODD = re.compile(f"[{_BLANK_LETTERS}{_QUOTES}{_OUR_SIGNS}]")
_INVISIBLE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
_PLAIN = re.compile(r"[ -~\n\t]*")
_LOOK_ALIKE_SCRIPTS = frozenset(("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"))
_WORD = re.compile(r"[^\W\d_]+(?:[\d_]*[^\W\d_]+)*")
_PIECE = re.compile(r" +|\n+|\t+|[!#-\[\]-~]+|(.)\1*", re.DOTALL)

Shows = Callable[[str], bool]


@frozen
class Signs:
    """How the marks are written. None can be forged: what a text holds of them is marked itself."""

    blank: str
    line_break: str
    tab: str
    mark: str
    times: str
    goes_on: str

    def run(self, sign: str, count: int) -> str:
        """The mark of so many of a kind."""
        return self.mark.format(sign if count == 1 else f"{sign}{self.times}{count}")


IN_FULL = Signs("␠", "⏎", "⇥", mark="\u2039{}\u203a", times="\u00d7", goes_on="↪")
IN_ASCII = Signs("blank", "\\n", "\\t", mark="\\{{{}}}", times="*", goes_on=">")  # where a backslash is written twice


def signs_for(shows: Shows) -> Signs:
    """The marks that can be shown."""
    return IN_FULL if shows(_OUR_SIGNS) else IN_ASCII


@frozen
class Odd:
    """A character that is marked, and why."""

    character: str
    why: str = ""

    @property
    def told(self) -> str:
        """Its number, its name, and why."""
        name = unicodedata.name(self.character, "a control character").lower()
        return f"U+{ord(self.character):04X} {name}{self.why}"


@frozen
class Piece:
    """A part of a marked text: `raw` characters of it. One that `holds` is not broken over two lines.

    `is_break`: it stands for line breaks.
    """

    text: str
    raw: int
    holds: bool = True
    is_break: bool = False

    @property
    def columns(self) -> int:
        """How wide it is at the most."""
        return len(self.text) if self.text.isascii() else sum(map(columns_of, self.text))


def columns_of(character: str) -> int:
    """How many columns a terminal may give the character."""
    return 2 if unicodedata.east_asian_width(character) in "WFA" or character >= "\U0001f000" else 1


@frozen
class Marked:
    """A text of which every odd character is known. `quoted`: as JSON writes a text."""

    text: str
    quoted: bool = False
    shows: Shows = lambda _: True
    _misplaced: Mapping[int, str] = field(init=False, repr=False)

    @_misplaced.default
    def _find_misplaced(self) -> Mapping[int, str]:
        return {} if self.text.isascii() else dict(_misplaced(self.text))

    def odd(self) -> Iterator[Odd]:
        """Each of the characters that are marked by their number."""
        if _PLAIN.fullmatch(self.text):
            return
        for place, character in enumerate(self.text):
            if place in self._misplaced:
                yield Odd(character, self._misplaced[place])
            elif character not in "\n\t" and _is_odd(character):
                yield Odd(character)

    def pieces(self, budget: int | None = None) -> list[Piece]:
        """The text, marked; where it needs more columns than the budget, its beginning and its end."""
        if budget is None:
            return self._quoted(list(self._marked(0, len(self.text))))
        middle = max(0, len(self.text) - 2 * _RAW_END)
        head = list(self._marked(0, _RAW_END if middle else len(self.text)))
        if not middle and sum(piece.columns for piece in head) <= budget:
            return self._quoted(head)
        tail = list(self._marked(len(self.text) - _RAW_END, len(self.text))) if middle else head
        first = _up_to(budget // 2, head)
        known = sum(piece.raw for piece in first)
        last = _up_to(budget // 2, reversed(tail), backwards=True)[::-1]
        left = len(self.text) - known - sum(piece.raw for piece in last)
        if left <= 0:
            return self._quoted(list(self._marked(0, len(self.text))))
        cut = Piece(signs_for(self.shows).mark.format(f"{left:,} characters left out"), left)
        return self._quoted([*first, cut, *last])

    def _quoted(self, pieces: list[Piece]) -> list[Piece]:
        return [Piece('"', 0), *pieces, Piece('"', 0)] if self.quoted else pieces

    def _marked(self, start: int, end: int) -> Iterator[Piece]:
        signs = signs_for(self.shows)
        for found in _PIECE.finditer(self.text, start, end):
            run, first = found[0], found[0][0]
            if run == " ":
                yield Piece(" ", 1)
            elif first == " ":
                yield Piece(signs.run(signs.blank, len(run)), len(run))
            elif first in "\n\t":
                sign = signs.line_break if first == "\n" else signs.tab
                mark = sign if len(run) == 1 else signs.run(sign, len(run))
                yield Piece(mark, len(run), is_break=first == "\n")
            elif "!" <= first <= "~" and first not in '"\\':
                yield Piece(run, len(run), holds=False)
            elif first in '"\\':
                escaped = self.quoted or signs is IN_ASCII
                yield Piece(run.replace("\\", "\\\\").replace('"', '\\"') if escaped else run, len(run), holds=False)
            elif found.start() not in self._misplaced and not _is_odd(first) and self.shows(first):
                yield Piece(run, len(run), holds=False)
            else:
                yield Piece(signs.run(f"U+{ord(first):04X}", len(run)), len(run))


def _up_to(budget: int, pieces: Iterable[Piece], backwards: bool = False) -> list[Piece]:
    """As many of the pieces as fit, the last of them cut where it may be."""
    taken: list[Piece] = []
    left = budget
    for piece in pieces:
        if piece.columns <= left:
            taken.append(piece)
            left -= piece.columns
            continue
        if not piece.holds and piece.text.isascii() and piece.raw == len(piece.text) and left > 0:
            taken.append(Piece(piece.text[-left:] if backwards else piece.text[:left], left, holds=False))
        break
    return taken


def _is_odd(character: str) -> bool:
    if character.isascii():
        return not " " <= character <= "~"
    category = unicodedata.category(character)
    if category in _INVISIBLE_CATEGORIES or _ODD.match(character) is not None:
        return True
    return category[0] in "LN" and unicodedata.normalize("NFKC", character).isascii()  # a wide or a bold A


def _misplaced(text: str) -> Iterator[tuple[int, str]]:
    """The places of characters that are odd for what stands around them, and why."""
    for found in _WORD.finditer(text):
        if not found[0].isascii():
            scripts = [_script(letter) for letter in found[0]]
            if "LATIN" in scripts:
                places = (place for place, script in enumerate(scripts) if script in _LOOK_ALIKE_SCRIPTS)
                yield from ((found.start() + place, ", in a word of Latin letters") for place in places)
    marks = 0
    for place, character in enumerate((*text, "")):
        if character and unicodedata.combining(character):
            marks += 1
        else:
            if marks > _MOST_MARKS:  # which are heaped up over the lines above
                yield from ((before, ", heaped up") for before in range(place - marks, place))
            marks = 0


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


# --- inputs ---


Parts = Sequence[str | Marked]  # what is ours, and what others have chosen


def parts_of(given: Json | RawInput, hide: Callable[[str], str] = str, shows: Shows = lambda _: True) -> Parts:
    """The input of a call: all of it, but for the values that `hide` takes out."""
    if isinstance(given, RawInput):
        return [Marked(hide(given.text), shows=shows)]
    return list(_parts(given.value(), hide, shows))


def _parts(value: JsonValue, hide: Callable[[str], str], shows: Shows) -> Iterator[str | Marked]:
    match value:
        case dict():
            yield "{"
            for number, (key, inner) in enumerate(value.items()):
                if number:
                    yield ", "
                yield Marked(hide(key), quoted=True, shows=shows)
                yield ": "
                yield from _parts(inner, hide, shows)
            yield "}"
        case list():
            yield "["
            for number, inner in enumerate(value):
                if number:
                    yield ", "
                yield from _parts(inner, hide, shows)
            yield "]"
        case str():
            yield Marked(hide(value), quoted=True, shows=shows)
        case _:
            yield Marked(hide(exact_text(value)), shows=shows)


def lines_of(parts: Parts, width: int, budget: int | None = None, by_lines: bool = False) -> list[str]:
    """The parts in lines of at most this width; of each value as much as the budget allows, both its ends.

    With `by_lines`, a line also ends where a line of the text does.
    """
    lines, line, used = list[str](), list[str](), 0
    for piece in _pieces(parts, budget):
        rest = piece.text
        while rest:
            room = width - used
            fits = rest if piece.columns <= room or not rest else _cut(rest, room)
            if piece.holds and fits != rest and used:
                fits = ""
            if not fits and not used:
                fits = rest[0]
            line.append(fits)
            used += sum(map(columns_of, fits))
            rest = rest[len(fits) :]
            if rest:
                lines.append("".join(line))
                line, used = [], 0
                piece = Piece(rest, 0, piece.holds)
        if by_lines and piece.is_break:
            lines.append("".join(line))
            line, used = [], 0
    return [*lines, "".join(line)]


def _pieces(parts: Parts, budget: int | None) -> Iterator[Piece]:
    for part in parts:
        if isinstance(part, str):
            yield Piece(part, 0)
        else:
            yield from part.pieces(budget)


def _cut(text: str, room: int) -> str:
    """As much of the beginning as there is room for."""
    if text.isascii():
        return text[: max(room, 0)]
    used = 0
    for place, character in enumerate(text):
        used += columns_of(character)
        if used > room:
            return text[:place]
    return text


def fitted(parts: Parts, width: int, most: int) -> list[str]:
    """The parts in at most so many lines: whole, or else the two ends of each value, or of the whole."""
    size = sum(len(part) if isinstance(part, str) else len(part.text) for part in parts)
    budgets: tuple[int | None, ...] = _BUDGETS if size > width * most * 20 else (None, *_BUDGETS)
    lines: list[str] = []
    for budget in budgets:
        lines = lines_of(parts, width, budget)
        if len(lines) <= most:
            return lines
    about = f"({len(lines):,} lines: those in between, with other values, are left out; answer `show` to see them)"
    cut = wrapped(about, width)[: most - 2]
    shown = most - len(cut)
    return [*lines[: shown - shown // 2], *cut, *lines[len(lines) - shown // 2 :]]


def warnings_of(parts: Parts) -> list[str]:
    """What is odd in the parts, also where it is not shown, by name."""
    marked = [part for part in parts if isinstance(part, Marked)]
    kinds = list(dict.fromkeys(odd for part in marked for odd in part.odd()))
    named = [odd.told for odd in kinds[:MOST_NAMED]]
    if len(kinds) > MOST_NAMED:
        named.append(f"{len(kinds) - MOST_NAMED} more kinds of characters that are marked")
    if any(_turns(part.text) for part in marked):
        named.append("letters that are written from right to left, so the order on the screen may be another")
    return named


def _turns(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)


def told_input(given: Json | RawInput, longest: int, hide: Callable[[str], str] = str) -> str:
    """The input in one line of about so many columns at the most."""
    return _in_a_line(hide(given_text(given)), longest, lambda _: True)


def given_text(given: Json | RawInput) -> str:
    """The input as it is, as JSON of one line."""
    return json.dumps(given.value(), ensure_ascii=False) if isinstance(given, Json) else given.text


def told_name(name: str, shows: Shows = lambda _: True) -> str:
    """The name of a tool, within a line."""
    return _in_a_line(name, LONGEST_NAME, shows)


def _in_a_line(text: str, longest: int, shows: Shows) -> str:
    return "".join(piece.text for piece in Marked(text, shows=shows).pieces(longest))


def wrapped(text: str, width: int) -> list[str]:
    """A text of ours in lines, broken between words."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and sum(map(columns_of, longer)) <= width:
            lines[-1] = longer
        else:
            lines.extend(lines_of([word], width))
    return lines
