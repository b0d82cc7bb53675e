"""What a person can choose in the editor: the mode, and the model. Told in both forms that the protocol has for it."""

from collections.abc import Sequence

from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.policy import Policy

MODE, MODEL = "mode", "model"
MODES: dict[ApprovalMode, tuple[str, str]] = {
    ApprovalMode.DEFAULT: ("Ask", "What changes something asks first."),
    ApprovalMode.PLAN: ("Plan", "Nothing is changed."),
    ApprovalMode.ACCEPT_EDITS: ("Accept edits", "Files are written unasked; all else that changes something asks."),
    ApprovalMode.BYPASS: ("Never ask", "Everything runs unasked, but for what a rule denies or asks about."),
    ApprovalMode.HEADLESS: ("Deny", "What would ask is denied."),
}


def modes_of(policy: Policy) -> SessionModeState:
    """The modes, and which one holds."""
    available = [SessionMode(id=mode.value, name=name, description=told) for mode, (name, told) in MODES.items()]
    return SessionModeState(available_modes=available, current_mode_id=policy.approval_mode.value)


def options_of(policy: Policy, models: Sequence[str]) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
    """The same as options, with the models that may be asked."""
    modes = [
        SessionConfigSelectOption(value=mode.value, name=name, description=told) for mode, (name, told) in MODES.items()
    ]
    return [
        SessionConfigOptionSelect(
            type="select",
            id=MODE,
            name="Mode",
            category="mode",
            current_value=policy.approval_mode.value,
            options=modes,
        ),
        SessionConfigOptionSelect(
            type="select",
            id=MODEL,
            name="Model",
            category="model",
            current_value=policy.model,
            options=[SessionConfigSelectOption(value=model, name=model) for model in models],
        ),
    ]


def mode_named(name: str) -> ApprovalMode:
    """The mode of that id. Raises ValueError."""
    try:
        return ApprovalMode(name)
    except ValueError:
        raise ValueError(f"there is no mode {name}; choose one of {', '.join(mode.value for mode in MODES)}") from None


def with_model(policy: Policy, model: str, models: Sequence[str]) -> Policy:
    """The policy with that model first, and the others behind it. Raises ValueError."""
    if model not in models:
        raise ValueError(f"there is no model {model}; choose one of {', '.join(models)}")
    return evolve(policy, model=model, fallback_models=tuple(other for other in models if other != model))
