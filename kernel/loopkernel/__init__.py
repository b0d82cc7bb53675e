"""The loop of an agent as a pure function: `transition(state, ctx) -> (next, effects)`.

    from loopkernel import Context, deltas, states, transition

The public names are those in the `__all__` of this package, of its namespaces (`states`, `deltas`, `effects`,
`events`, `policy`, `tools`, `messages`, `codec`, `laws`, `judging`, `testing`) and of `loopkernel_adapters`. All else
may change in any release: the modules under `data`, `loop` and `views` are how the kernel is built, not what it offers.
"""

__version__ = "0.8.0"

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel import codec as codec
    from loopkernel import deltas as deltas
    from loopkernel import effects as effects
    from loopkernel import events as events
    from loopkernel import judging as judging
    from loopkernel import laws as laws
    from loopkernel import messages as messages
    from loopkernel import policy as policy
    from loopkernel import states as states
    from loopkernel import testing as testing
    from loopkernel import tools as tools
    from loopkernel.data.blocks import TextBlock as TextBlock
    from loopkernel.data.deltas import Delta as Delta
    from loopkernel.data.effects import Command as Command
    from loopkernel.data.effects import Effect as Effect
    from loopkernel.data.errors import CodecError as CodecError
    from loopkernel.data.errors import DataError as DataError
    from loopkernel.data.errors import Fault as Fault
    from loopkernel.data.errors import LawBroken as LawBroken
    from loopkernel.data.errors import OtherRules as OtherRules
    from loopkernel.data.errors import PolicyError as PolicyError
    from loopkernel.data.events import Event as Event
    from loopkernel.data.ids import CallId as CallId
    from loopkernel.data.json_text import Json as Json
    from loopkernel.data.messages import Message as Message
    from loopkernel.data.policy import Policy as Policy
    from loopkernel.data.policy import Retry as Retry
    from loopkernel.data.records import LogRecord as LogRecord
    from loopkernel.data.records import StepRecord as StepRecord
    from loopkernel.data.states import State as State
    from loopkernel.data.steps import Context as Context
    from loopkernel.data.steps import Step as Step
    from loopkernel.data.thread_deltas import RULES_VERSION as RULES_VERSION
    from loopkernel.data.tools import EffectClass as EffectClass
    from loopkernel.data.tools import Tool as Tool
    from loopkernel.data.tools import ToolOutput as ToolOutput
    from loopkernel.data.tools import ToolProfile as ToolProfile
    from loopkernel.data.usage import Usage as Usage
    from loopkernel.judging import check_pairs as check_pairs
    from loopkernel.judging import check_trace as check_trace
    from loopkernel.laws import LAWS as LAWS
    from loopkernel.loop.algorithms.beginnings import start_from as start_from
    from loopkernel.loop.algorithms.projection import project as project
    from loopkernel.loop.transition import transition as transition
    from loopkernel.machine import Machine as Machine
    from loopkernel.presets import preset as preset
    from loopkernel.replaying import first_divergence as first_divergence
    from loopkernel.replaying import fold as fold
    from loopkernel.replaying import fork as fork
    from loopkernel.replaying import replay as replay
    from loopkernel.views.deadlines import next_deadline as next_deadline
    from loopkernel.views.event_text import event_to_text as event_to_text
    from loopkernel.views.explain import Explanation as Explanation
    from loopkernel.views.explain import accepted_inputs as accepted_inputs
    from loopkernel.views.explain import explain as explain
    from loopkernel.views.waiting import PersonWait as PersonWait
    from loopkernel.views.waiting import waiting as waiting
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel.data.blocks": "TextBlock",
            "loopkernel.data.deltas": "Delta",
            "loopkernel.data.effects": "Command Effect",
            "loopkernel.data.errors": "CodecError DataError Fault LawBroken OtherRules PolicyError",
            "loopkernel.data.events": "Event",
            "loopkernel.data.ids": "CallId",
            "loopkernel.data.json_text": "Json",
            "loopkernel.data.messages": "Message",
            "loopkernel.data.policy": "Policy Retry",
            "loopkernel.data.records": "LogRecord StepRecord",
            "loopkernel.data.states": "State",
            "loopkernel.data.steps": "Context Step",
            "loopkernel.data.thread_deltas": "RULES_VERSION",
            "loopkernel.data.tools": "EffectClass Tool ToolOutput ToolProfile",
            "loopkernel.data.usage": "Usage",
            "loopkernel.judging": "check_pairs check_trace",
            "loopkernel.laws": "LAWS",
            "loopkernel.loop.algorithms.beginnings": "start_from",
            "loopkernel.loop.algorithms.projection": "project",
            "loopkernel.loop.transition": "transition",
            "loopkernel.machine": "Machine",
            "loopkernel.presets": "preset",
            "loopkernel.replaying": "first_divergence fold fork replay",
            "loopkernel.views.deadlines": "next_deadline",
            "loopkernel.views.event_text": "event_to_text",
            "loopkernel.views.explain": "Explanation accepted_inputs explain",
            "loopkernel.views.waiting": "PersonWait waiting",
        },
        namespaces="codec deltas effects events judging laws messages policy states testing tools",
    )
