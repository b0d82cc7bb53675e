"""What a session goes by: the policy that the options name, with what they say beside it; instructions and secrets."""

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve
from loopkernel.codec import policy_from_text, policy_to_text
from loopkernel.data.choices import ApprovalMode, Lifetime
from loopkernel.data.errors import CodecError, PolicyError
from loopkernel.data.policy import Policy, Retry
from loopkernel.presets import PRESETS, VARIANTS, preset

from loopkernel_adapters.cli.argument_values import VARIABLE_IN_BRACES
from loopkernel_adapters.cli.options import DEFAULT_MAX_TURNS, DEFAULT_RETRIES, Approvals, Options
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.provider_keys import real_keys
from loopkernel_adapters.secrets import Secrets

MODES = {
    Approvals.ASK: ApprovalMode.DEFAULT,
    Approvals.ALWAYS: ApprovalMode.BYPASS,
    Approvals.NEVER: ApprovalMode.HEADLESS,
}
LARGEST_FILE = 1_000_000  # bytes


def policy_of(options: Options, lifetime: Lifetime | None, models: Sequence[str]) -> Policy:
    """What a new session goes by; `lifetime` is None where the policy's own holds. Raises Unusable, with each fault."""
    if options.policy is None:
        policy = Policy(max_turns=DEFAULT_MAX_TURNS, retry=Retry(retries=DEFAULT_RETRIES))
    else:
        policy = named_policy(str(options.policy))
    return with_limits(policy if lifetime is None else evolve(policy, lifetime=lifetime), options, models)


def policy_from_now_on(policy: Policy, given: Options, models: Sequence[str]) -> Policy:
    """What a session of that policy goes by when it is gone on with; it lasts as long as it would. Raises Unusable."""
    if given.policy is not None:
        policy = evolve(named_policy(str(given.policy)), lifetime=policy.lifetime)
    return with_limits(policy, given, models)


def with_limits(policy: Policy, options: Options, models: Sequence[str]) -> Policy:
    """The policy, but for the limits, the approvals and the models that the options name."""
    if options.max_turns is not None:
        policy = evolve(policy, max_turns=options.max_turns)
    if options.max_total_tokens is not None:
        policy = evolve(policy, max_total_tokens=options.max_total_tokens)
    if options.retries is not None:
        policy = evolve(policy, retry=evolve(policy.retry or Retry(), retries=options.retries))
    if options.approvals is not None:
        policy = evolve(policy, approval_mode=MODES[options.approvals])
    return with_models(policy, models)


def with_models(policy: Policy, models: Sequence[str]) -> Policy:
    """The policy, with these models in the order of asking."""
    model, *fallback_models = models
    return evolve(policy, model=model, fallback_models=tuple(fallback_models))


def named_policy(name: str) -> Policy:
    """A preset by its name, or the policy of a file. Raises Unusable."""
    if name in PRESETS or name in VARIANTS:
        return preset(name)
    path = Path(name)
    if not path.exists():
        names = ", ".join([*PRESETS, *VARIANTS])
        raise Unusable(f"there is no policy {name}, neither a file nor a preset; choose {names}, or name a file")
    try:
        return policy_from_text(text_of_file(path, "policy"))
    except (CodecError, PolicyError) as error:
        raise Unusable(f"the policy {path} cannot be used: {error}{_form(error)}") from error


def _form(error: CodecError | PolicyError) -> str:
    """What a policy looks like, for whoever has written none yet."""
    if isinstance(error, CodecError) and any(not fault.path.startswith("$.value.") for fault in error.faults):
        return f"\nA policy says what is not as by default: {policy_to_text(Policy(max_turns=20, max_parallel=1))}"
    return ""


def instructions_of(options: Options) -> str:
    """What the model is told before anything else. Raises Unusable."""
    text = options.instructions
    if text is None or not text.startswith("@"):
        return text or ""
    return text_of_file(Path(text.removeprefix("@")), "instructions")


def text_of_file(path: Path, what: str) -> str:
    """The text of a file of UTF-8. Raises Unusable."""
    if path.exists() and not path.is_file():  # reading a pipe or a device might never end
        raise Unusable(f"the {what} {path} cannot be read: it is not a regular file; name another")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise Unusable(f"the {what} {path} is larger than {LARGEST_FILE} bytes; name another file")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unusable(f"the {what} {path} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except OSError as error:
        raise Unusable(f"the {what} {path} cannot be read: {error.strerror}; name another file") from error


def _keys_of_servers(options: Options) -> dict[str, str]:
    """What servers get that looks like a key, by the name of its variable: no model and no log is to see it."""
    named = {text.rpartition("=")[2] for text in options.server_variables}
    named.update(name for text in options.server_headers for name in VARIABLE_IN_BRACES.findall(text))
    return real_keys({name: os.environ.get(name) for name in sorted(named)})


def secrets_of(options: Options) -> Secrets:
    """The values that are registered, by name, and the keys that servers get. Raises Unusable, which shows none."""
    try:
        registered = Secrets({name: os.environ.get(variable, "") for name, variable in options.secrets})
        return registered.with_keys(_keys_of_servers(options))
    except ValueError as error:
        raise Unusable(f"a secret cannot be registered: {error}; use another value or name") from error
