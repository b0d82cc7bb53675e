"""JSON from anywhere, made safe here and never later: canonical text, and a reader that nothing can break.

Every text gives a value or a CodecError that names all that is wrong. Refused: NaN and Infinity, numbers that
overflow, duplicate keys, integers of more than 308 digits, nesting deeper than 64, raw control characters,
anything after the end. Lone surrogates become U+FFFD. No fault is worded by the interpreter, whose words
differ from version to version: a fault may become part of a state.
"""

import enum
import json
import math
import re
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from attrs import field, frozen

from loopkernel.data.errors import MAX_FAULTS, CodecError, Fault, at_most_told, json_path

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

MAX_DEPTH = 64  # of lists and objects within each other
MAX_DOCUMENT_DEPTH = 2 * MAX_DEPTH  # of a document, which holds such values within its own structure
MAX_DIGITS = 308  # the most that surely fits into a float, and far below the interpreter's own limit
_TOO_LARGE = 10**MAX_DIGITS
_HOLDS_SURROGATE = "holds a surrogate: pass the text through safe_text where it comes in"
_TOO_MANY_DIGITS = f"is an integer of more than {MAX_DIGITS} digits"
JSON_TYPES = (type(None), bool, int, float, str, list, dict)


# --- text ---------------------------------------------------------------------------------------------

_SURROGATES = re.compile(r"([\ud800-\udbff][\udc00-\udfff])|[\ud800-\udfff]")
_ESCAPES = re.compile(
    r"""(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # a pair
       | \\(?!u[dD][89a-fA-F][0-9a-fA-F]{2})[\s\S])                  # any other escape
       | \\u[dD][89a-fA-F][0-9a-fA-F]{2}                             # a lone surrogate""",
    re.VERBOSE,
)


def safe_text(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded; pairs are joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub(_joined, text)
    return text


def _joined(found: re.Match[str]) -> str:
    pair = found[1]
    return "\ufffd" if pair is None else pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _without_lone_surrogates(text: str) -> str:
    """The JSON text with each lone surrogate, raw or escaped, replaced by U+FFFD."""
    text = safe_text(text)
    if "\\ud" in text or "\\uD" in text:
        return _ESCAPES.sub(lambda found: found[1] or "\\ufffd", text)
    return text


# --- depth --------------------------------------------------------------------------------------------

_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


def nested_deeper(text: str, depth: int) -> bool:
    """Whether lists and objects lie in each other more than `depth` deep in a JSON text, in linear time.

    Where the text is not JSON the answer may be either, but "no" still bounds the depth that a reader sees.
    """
    if text.count("[") + text.count("{") <= depth:
        return False
    # Once the escaped quotes are gone, every second piece between quotes lies outside of strings. Two quotes side by
    # side, which most are, may go as well: no bracket lies between them.
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    pieces = text.encode("ascii", "ignore").translate(_SQUARE, _NO_STRUCTURE).replace(b'""', b"").split(b'"')
    brackets = b"".join(pieces[::2])
    for _ in range(depth):  # each pass takes the innermost pairs away, and so one level
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return brackets.count(b"[]") > 0 or brackets.count(b"[") > depth


_DIGITS = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_LONG_NUMBER = b"0" * (MAX_DIGITS + 1)


def _may_hold_long_integer(text: str) -> bool:
    """Whether more than MAX_DIGITS digits stand in a row, in a number or not. Much cheaper than to look at each."""
    return len(text) > MAX_DIGITS and _LONG_NUMBER in text.encode("ascii", "replace").translate(_DIGITS)


# --- reading ------------------------------------------------------------------------------------------


@frozen
class _Unreadable:
    """Stands in a parsed document for a number that was refused."""

    problem: str


@frozen
class _Repeating:
    """Stands in a parsed document for an object that gives a key twice."""

    pairs: list[tuple[str, object]]


_DECODER = json.JSONDecoder()


def _is_canonical(text: str) -> bool:
    """Whether the text is canonical JSON already, as most that is sent is: read and written again it is the same.

    So nothing in it is given twice, and no number is one that JSON does not have. What that cannot show is looked for.
    """
    if "\\ud" in text or _may_hold_long_integer(text) or nested_deeper(text, MAX_DEPTH):
        return False
    try:
        return canonical_text(_DECODER.raw_decode(text)[0]) == text
    except ValueError:
        return False


def _demand_text(text: object) -> None:
    if isinstance(text, bytes | bytearray):
        raise CodecError([Fault("$", "is bytes and not a text: decode it first, as from UTF-8")])
    if not isinstance(text, str):
        raise CodecError([Fault("$", f"is of type {type(text).__name__} and not a text: Json.of takes values")])


def parse_json(text: str, depth: int = MAX_DEPTH) -> JsonValue:
    """The value of a JSON text, nested at most `depth` deep. Raises CodecError with all that is wrong."""
    _demand_text(text)
    if nested_deeper(text, depth):
        raise CodecError([_too_deep(depth)])
    refused: list[object] = []
    try:
        # Any: a JSON value, but for the stand-ins that `refused` tells of.
        value: Any = _decoder(refused, _may_hold_long_integer(text)).decode(_without_lone_surrogates(text))
    except json.JSONDecodeError:
        raise CodecError([Fault("$", _syntax_problem(text))]) from None
    if refused:
        faults: list[Fault] = []
        _find_refused(value, [], faults)
        raise CodecError(at_most_told(faults))
    return cast(JsonValue, value)  # nothing was refused


def _too_deep(depth: int) -> Fault:
    return Fault("$", f"is nested deeper than {depth} levels")


def _decoder(refused: list[object], long_integers: bool) -> json.JSONDecoder:
    """A decoder that puts a stand-in where it refuses something, and notes it in `refused`."""

    def unreadable(problem: str) -> _Unreadable:
        stand_in = _Unreadable(problem)
        refused.append(stand_in)
        return stand_in

    def integer(digits: str) -> int | _Unreadable:
        if len(digits) > MAX_DIGITS and len(digits.removeprefix("-")) > MAX_DIGITS:
            return unreadable(_TOO_MANY_DIGITS)
        return int(digits)

    def fraction(digits: str) -> float | _Unreadable:
        number = float(digits)
        return number if math.isfinite(number) else unreadable("is a number too large for a float")

    def constant(name: str) -> _Unreadable:
        return unreadable(f"is {name}, which JSON does not have")

    def members(pairs: list[tuple[str, object]]) -> dict[str, object] | _Repeating:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        stand_in = _Repeating(pairs)
        refused.append(stand_in)
        return stand_in

    return json.JSONDecoder(
        object_pairs_hook=members,
        parse_int=integer if long_integers else int,
        parse_float=fraction,
        parse_constant=constant,
    )


def _find_refused(value: object, path: list[str | int], faults: list[Fault]) -> None:
    """Adds a fault for each stand-in within the value, in the order of the text."""
    children: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, _Unreadable):
        faults.append(Fault(json_path(path), value.problem))
    elif isinstance(value, list):
        children = enumerate(value)
    elif isinstance(value, dict):
        children = value.items()
    elif isinstance(value, _Repeating):
        children = value.pairs
        counts: dict[str, int] = {}
        for key, _ in value.pairs:
            counts[key] = counts.get(key, 0) + 1
        faults += [
            Fault(json_path([*path, key]), f"is given {count} times") for key, count in counts.items() if count > 1
        ]
    for segment, child in children:
        if len(faults) > MAX_FAULTS:
            return
        _find_refused(child, [*path, segment], faults)


# --- where a text stops being JSON --------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?: (?P<text>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+)(?P<closed>")?
          | (?P<scalar>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|NaN|-?Infinity)
          | (?P<mark>[\[\]{},:])
        )[ \t\n\r]*+""",
    re.VERBOSE,
)


class _Wanted(enum.Enum):
    """What may come next, a letter for each token: a mark for itself, `t` a text, `s` another scalar."""

    VALUE = "ts[{"
    FIRST_ITEM = "ts[{]"
    FIRST_KEY = "t}"
    KEY = "t"
    COLON = ":"
    AFTER_ITEM = ",]"
    AFTER_MEMBER = ",}"
    END = ""


def _syntax_problem(text: str) -> str:
    """Says where the text, which is not JSON, stops being so."""
    position = _first_misfit(text)
    if position >= len(text):
        return "is not JSON: the text ends too early"
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"is not JSON from line {line}, column {column} on"


def _first_misfit(text: str) -> int:
    """The position of the first token that does not fit, or the length of the text."""
    position = len(text) - len(text.lstrip(" \t\n\r"))
    wanted = _Wanted.VALUE
    within: list[str] = []
    while found := _TOKEN.match(text, position):
        token: str = "t" if found["text"] else found["mark"] or "s"
        if token not in wanted.value:
            return position
        if token == "t" and not found["closed"]:
            return found.end("text")
        wanted = _next_wanted(token, wanted, within)
        position = found.end()
    return position


def _next_wanted(token: str, wanted: _Wanted, within: list[str]) -> _Wanted:
    """What may follow a token that fits. `within` holds the brackets that are open, and is updated."""
    if token in "[{":
        within.append(token)
        return _Wanted.FIRST_ITEM if token == "[" else _Wanted.FIRST_KEY
    if token == ",":
        return _Wanted.VALUE if within[-1] == "[" else _Wanted.KEY
    if token == ":":
        return _Wanted.VALUE
    if wanted in (_Wanted.KEY, _Wanted.FIRST_KEY) and token == "t":
        return _Wanted.COLON
    if token in "]}":
        within.pop()
    if not within:
        return _Wanted.END
    return _Wanted.AFTER_ITEM if within[-1] == "[" else _Wanted.AFTER_MEMBER


# --- writing ------------------------------------------------------------------------------------------

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


def canonical_text(value: JsonValue) -> str:
    """The canonical text of a value that is known to be good: from `parse_json`, or built with care."""
    return _ENCODER.encode(value)


def exact_text(value: JsonValue) -> str:
    """The canonical text of a value, from which `parse_json` gives the same value back. Raises CodecError, with all
    faults, where it could not: surrogates, NaN, too long integers, more depth than a document may have."""
    try:
        text = canonical_text(value)
    except ValueError:  # no JSON has this number; the check says where it stands
        return canonical_text(checked(value, MAX_DOCUMENT_DEPTH, exact=True))
    if "\\ud" in text or _may_hold_long_integer(text) or nested_deeper(text, MAX_DOCUMENT_DEPTH):
        checked(value, MAX_DOCUMENT_DEPTH, exact=True)
    return text


def checked(value: object, depth: int = MAX_DEPTH, exact: bool = False) -> JsonValue:
    """A copy of the value with safe texts, as `parse_json` gives them. Raises CodecError if a part is not JSON.

    If `exact`, a text that would have to change is refused as well.
    """
    check = _Check(depth, exact)
    result = check.copy(value, [])
    if check.faults:
        raise CodecError(at_most_told(check.faults))
    return result


class _Check:
    """Copies a value that may be anything, and collects what is wrong with it."""

    def __init__(self, depth: int, exact: bool) -> None:
        self.depth = depth
        self.exact = exact
        self.faults: list[Fault] = []

    def copy(self, value: object, path: list[str | int]) -> JsonValue:
        """A copy of the part at `path`, as far as it is JSON."""
        if type(value) not in JSON_TYPES:  # exactly: a subclass may be written in any way
            self._refuse(path, f"is a Python {type(value).__name__}, which JSON does not have")
        elif isinstance(value, str):
            if self.exact and safe_text(value) != value:
                self._refuse(path, _HOLDS_SURROGATE)
            return safe_text(value)
        elif isinstance(value, list | dict):
            if len(path) == self.depth:
                raise CodecError([_too_deep(self.depth)])
            return self._list(value, path) if isinstance(value, list) else self._dict(value, path)
        elif isinstance(value, float) and not math.isfinite(value):
            self._refuse(path, f"is {value}, which JSON does not have")
        elif isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
            self._refuse(path, _TOO_MANY_DIGITS)
        elif isinstance(value, int | float):
            return value
        return None

    def _refuse(self, path: list[str | int], problem: str) -> None:
        self.faults.append(Fault(json_path(path), problem))

    def _list(self, items: list[object], path: list[str | int]) -> list[JsonValue]:
        copy: list[JsonValue] = []
        for index, item in enumerate(items):
            if len(self.faults) > MAX_FAULTS:
                break
            copy.append(self.copy(item, [*path, index]))
        return copy

    def _dict(self, members: dict[object, object], path: list[str | int]) -> dict[str, JsonValue]:
        copy: dict[str, JsonValue] = {}
        for key, item in members.items():
            if len(self.faults) > MAX_FAULTS:
                break
            if type(key) is not str:
                self._refuse(path, f"has a key that is not text but a {type(key).__name__}")
                continue
            place = [*path, safe_key := safe_text(key)]
            if self.exact and safe_key != key:
                self._refuse(place, f"is a key that {_HOLDS_SURROGATE}")
            elif safe_key in copy:
                self._refuse(place, "is given twice, but for lone surrogates")
            copy[safe_key] = self.copy(item, place)
        return copy


@frozen
class Json:
    """A JSON value, held as its canonical text, so that it is immutable, ordered, and compared exactly.

    Canonical: keys in the order given, no spaces, ASCII, floats as `repr` gives them. Build it with `parse`
    or `of`; built directly from any other text it raises CodecError.
    """

    text: str = field()

    @text.validator
    def _demand_canonical(self, _: object, text: str) -> None:
        _demand_text(text)
        if not _is_canonical(text) and canonical_text(parse_json(text)) != text:
            raise CodecError([Fault("$", "is JSON but not in canonical form: build it with Json.parse")])

    @staticmethod
    def parse(text: str) -> "Json":
        """The JSON value that any JSON text says. Raises CodecError with all that is wrong."""
        _demand_text(text)
        return Json._known_good(text if _is_canonical(text) else canonical_text(parse_json(text)))

    @staticmethod
    def of(value: JsonValue) -> "Json":
        """The value as JSON. Raises CodecError with all that is wrong."""
        return Json._known_good(canonical_text(checked(value)))

    @staticmethod
    def of_parsed(value: JsonValue) -> "Json":
        """As `of`, for a part of what `parse_json` gave: only its depth is still looked at."""
        text = canonical_text(value)
        if nested_deeper(text, MAX_DEPTH):
            raise CodecError([_too_deep(MAX_DEPTH)])
        return Json._known_good(text)

    @staticmethod
    def _known_good(text: str) -> "Json":
        json_value = object.__new__(Json)  # past the validator, which would parse the text once more
        object.__setattr__(json_value, "text", text)
        return json_value

    def value(self) -> JsonValue:
        """The value, parsed afresh: changing it changes nothing here."""
        parsed: JsonValue = json.loads(self.text)
        return parsed
