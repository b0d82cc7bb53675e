"""Strategies for the smallest data: texts, names, JSON values, usage, and ids that meet the open operations."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    QueueNumber,
    ReceiptId,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.usage import Usage

# What breaks careless code: nothing, blanks, lone surrogates and a pair of them, line separators, control
# characters, marks that reorder, a character that grows when its case is changed, JSON's own signs.
AWKWARD_TEXTS = (
    "",
    " ",
    "\t\n",
    "\ud800",
    "\udc00a",
    "\ud83d\ude00",
    "\u2028",
    "\u2029",
    "\x00",
    "\x1b[2J",
    "\x7f\x85",
    "\u202e",
    "\ufeff",
    "\ufffd",
    "\u00df",
    "e\u0301",
    "\U0001f469\u200d\U0001f4bb",
    '"',
    "\\",
    "\\ud800",
    "{}",
    '{"$result": "c1"}',
    "../..",
    "NaN",
)

# Few of each, so that two draws are often equal: what is sent twice, called twice, claimed twice.
NAMES = ("read", "write", "shell")
KEYS = ("k1", "k2")
RESOURCES = ("a", "a/b", "b", ".", "/")
MODELS = ("default", "other")
PROVIDER_IDS = ("c1", "c2", "c3")

# As they come from outside: a constructor makes them safe.
raw_texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(("a", "b")), st.sampled_from(AWKWARD_TEXTS), st.text(st.characters(), max_size=3)
)
# Texts that can be encoded, for fields that take no other.
texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(("a", "b")),
    st.sampled_from(tuple(text for text in AWKWARD_TEXTS if text.isprintable() and "\ud83d" not in text)),
    st.text(max_size=3),
)
names: SearchStrategy[str] = st.one_of(
    st.sampled_from(NAMES), st.sampled_from(("", "no such tool", "m\u00fcll", "\udfff"))
)
keys: SearchStrategy[str | None] = st.one_of(st.none(), st.sampled_from(KEYS), raw_texts)
# As the kernel itself holds them, in fields that take what is safe already.
safe_names: SearchStrategy[str] = names.map(safe_text)
safe_keys: SearchStrategy[str | None] = keys.map(lambda key: None if key is None else safe_text(key))
resource_keys: SearchStrategy[str] = st.sampled_from(RESOURCES)
models: SearchStrategy[str] = st.sampled_from(MODELS)
provider_ids: SearchStrategy[str] = st.sampled_from(PROVIDER_IDS)

counts: SearchStrategy[int] = st.integers(0, 4)
times_ms: SearchStrategy[int] = st.one_of(st.integers(0, 5), st.integers(-(2**40), 2**40))


def _nested(children: SearchStrategy[JsonValue]) -> SearchStrategy[JsonValue]:
    lists: SearchStrategy[JsonValue] = st.lists(children, max_size=2).map(list)
    objects: SearchStrategy[JsonValue] = st.dictionaries(texts, children, max_size=2).map(dict)
    return lists | objects


_scalars: SearchStrategy[JsonValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from((2**53 + 1, -(10**300), 0.0, -0.0, 0.5, 1e300)),
    texts,
)
json_values: SearchStrategy[JsonValue] = st.recursive(_scalars, _nested, max_leaves=4)
json_texts: SearchStrategy[Json] = json_values.map(Json.of)

# Usage as reports give it: equal, growing and shrinking ones, since the kernel merges by maximum.
usages: SearchStrategy[Usage] = st.builds(Usage, counts, counts, counts, counts)

# --- ids ------------------------------------------------------------------------------------------------
# Mostly ids that small runs really mint, so that they hit what is open or was; now and then impossible ones.

id_numbers: SearchStrategy[int] = st.one_of(st.integers(1, 3), st.sampled_from((0, 4, -1, 2**70)))
message_ids: SearchStrategy[MessageId] = id_numbers.map(MessageId)
receipt_ids: SearchStrategy[ReceiptId] = id_numbers.map(ReceiptId)
queue_numbers: SearchStrategy[QueueNumber] = id_numbers.map(QueueNumber)
model_operations: SearchStrategy[ModelOperation] = id_numbers.map(ModelOperation)
check_operations: SearchStrategy[CheckOperation] = id_numbers.map(CheckOperation)
run_operations: SearchStrategy[RunOperation] = id_numbers.map(RunOperation)
timer_operations: SearchStrategy[TimerOperation] = id_numbers.map(TimerOperation)
hook_operations: SearchStrategy[HookOperation] = id_numbers.map(HookOperation)
correction_operations: SearchStrategy[CorrectionOperation] = id_numbers.map(CorrectionOperation)
summary_operations: SearchStrategy[SummaryOperation] = id_numbers.map(SummaryOperation)
handoff_operations: SearchStrategy[HandoffOperation] = id_numbers.map(HandoffOperation)
call_ids: SearchStrategy[CallId] = st.builds(CallId, model_operations, id_numbers)
