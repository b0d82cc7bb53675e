"""Providers by their names: each name opens what it says, or tells in words why it cannot."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, ModelText
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.ports import ProviderUnavailable
from loopkernel_adapters.providers import named
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
from loopkernel_adapters.providers.local import provider as local
from loopkernel_adapters.providers.local.provider import ModelMissing
from loopkernel_adapters.providers.named import opened
from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
from loopkernel_adapters.providers.recorded import RecordedProvider
from loopkernel_adapters.providers.scripted import ScriptedProvider

from tests.adapters.providers.asked_requests import OPERATION
from tests.adapters.providers.openai_world import calls_in, read, text_in
from tests.adapters.providers.test_openai_driver import ANSWERS
from tests.adapters.providers.test_recorded_provider import LOG, written
from tests.adapters.providers.wire_server import WireServer, stream_of

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def refusal(name: str, base_url: str | None = None) -> str:
    """What is said when nothing is opened by that name."""
    with pytest.raises(ProviderUnavailable) as raised:
        opened(name, base_url=base_url).__enter__()
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai:gpt-5", OpenAIResponsesProvider),
        ("openai-chat:glm:4.7", OpenAIChatProvider),
        ("anthropic:claude-test", AnthropicProvider),
    ],
)
def test_a_vendor_is_opened_with_the_key_of_the_environment(
    name: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in KEYS[::2]:
        monkeypatch.setenv(variable, "a-key")
    with opened(name) as (provider, model):
        assert type(provider) is kind
        assert model == name.partition(":")[2]


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:m", "OPENAI_API_KEY"), ("openai-chat:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_is_named(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variable in refusal(name)
    monkeypatch.setenv(variable, " ")
    assert variable in refusal(name)


@pytest.mark.parametrize("name", ["openai-chat:m", "openai:m"])
def test_a_server_of_ones_own_needs_no_key(name: str) -> None:
    api = "chat" if "chat" in name else "responses"
    answer = stream_of(ANSWERS[api])  # type: ignore[index]  # one of the two
    with WireServer([answer]) as server, opened(name, base_url=f"{server.url}/v1") as (provider, _):
        assert text_in(asyncio.run(read(provider))) == "It said hello."
    (request,) = server.requests
    assert request.path.startswith("/v1/")


@pytest.mark.parametrize(
    ("extra", "modules"), [("openai", ("openai.chat", "openai.responses")), ("anthropic", ("anthropic.provider",))]
)
def test_a_missing_extra_is_told_with_what_to_run(extra: str, modules: tuple[str, ...]) -> None:
    """In a process of its own, in which the vendor's package cannot be imported."""
    program = f"""
import sys
sys.modules[{extra!r}] = None
from loopkernel_adapters.ports import ProviderUnavailable
from loopkernel_adapters.providers.named import opened
try:
    opened("{extra}:m", base_url="http://127.0.0.1:1")
except ProviderUnavailable as error:
    print(error)
for module in {modules}:
    try:
        __import__(f"loopkernel_adapters.providers.{{module}}")
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count(f"is an extra: pip install 'loopkernel[{extra}]'") == 1 + len(modules)


def test_names_cost_no_vendors_client() -> None:
    program = """
import sys
from loopkernel_adapters.providers import named
print(sorted({"openai", "anthropic", "httpx2", "pydantic", "xllamacpp", "jsonschema"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["", "gpt-5", "openai", "Local", "nobody:m", "openai:", "scripted: "])
def test_a_name_that_is_none_lists_those_that_are(name: str) -> None:
    said = refusal(name)
    assert all(form in said for form in ("local", "scripted:FILE", "recorded:LOG", "openai-chat:MODEL"))


# --- recorded -----------------------------------------------------------------------------------------


def test_a_recorded_run_is_opened_with_its_own_model(tmp_path: Path) -> None:
    path = written(tmp_path / "run#1.jsonl", LOG)
    with opened(f"recorded:{path}") as (provider, model):
        assert isinstance(provider, RecordedProvider)
        assert model == provider.models[0]


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "No such file" in refusal(f"recorded:{tmp_path / 'none'}")
    (tmp_path / "notes").write_text("milk\n")
    assert "not a log" in refusal(f"recorded:{tmp_path / 'notes'}")
    assert "Is a directory" in refusal(f"recorded:{tmp_path}")


# --- local --------------------------------------------------------------------------------------------


def test_a_missing_local_model_is_told_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> Path:
        raise ModelMissing("the weights are not installed")

    monkeypatch.setattr(named, "find_model", find)
    with pytest.raises(ProviderUnavailable, match="the weights are not installed"):
        opened("local")


def test_a_local_model_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(settings: object) -> object:
        raise ModelMissing("the engine cannot be imported")

    monkeypatch.setattr(named, "find_model", lambda: Path())
    monkeypatch.setattr(local, "load_engine", load)
    opening = opened("local")
    with pytest.raises(ProviderUnavailable, match="the engine cannot be imported"):
        opening.__enter__()


# --- scripts ------------------------------------------------------------------------------------------


def script(folder: Path, content: object) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps(content))
    return f"scripted:{path}"


def test_a_script_is_said_reply_by_reply(tmp_path: Path) -> None:
    replies = [
        {"text": "I read.", "calls": [{"tool": "read_file", "input": {"path": "a"}}]},
        {"text": "It is ", "fails": "overloaded", "message": "busy", "retry_after_ms": 9},
        {},
    ]
    with opened(script(tmp_path, replies)) as (provider, model):
        assert (type(provider), model) == (ScriptedProvider, "scripted")
        first, second, third = [asyncio.run(read(provider)) for _ in replies]
    assert [delta.text for delta in first if isinstance(delta, ModelText)] == ["I ", "read."]
    assert [(call.tool, call.input.text) for call in calls_in(first)] == [("read_file", '{"path":"a"}')]
    assert [type(delta) for delta in first[-2:]] == [ModelCall, ModelCompleted]
    failed = second[-1]
    assert isinstance(failed, ModelFailed)
    assert (failed.error, failed.message, failed.retry_after_ms) == (ErrorClass.OVERLOADED, "busy", 9)
    assert third == [ModelCompleted(OPERATION, StopReason.END_TURN)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "$ is not a list"),
        ([1], "$[0] is not an object"),
        ([{"txt": "a"}], "$[0] has a field 'txt'"),
        ([{"text": 1}], "$[0].text is not a text"),
        ([{"fails": "badly"}], "$[0].fails is none of overloaded"),
        ([{"retry_after_ms": -1}], "$[0].retry_after_ms"),
        ([{"calls": {}}], "$[0].calls is not a list"),
        ([{"calls": [{"tool": "a"}]}], "$[0].calls[0]"),
    ],
)
def test_a_script_that_is_none_says_where(tmp_path: Path, content: object, said: str) -> None:
    assert said in refusal(script(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "said"), [(b"[", "not a list of replies"), (b"\xff", "not UTF-8"), (b" " * 1_000_001, "larger than")]
)
def test_a_file_that_is_no_script_says_what_is_wrong(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "script").write_bytes(content)
    assert said in refusal(f"scripted:{tmp_path / 'script'}")


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "No such file" in refusal(f"scripted:{tmp_path / 'none'}")
