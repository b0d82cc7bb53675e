"""The shell around the kernel: an agent, and the driver, providers, tools and stores that it is made of.

    from loopkernel_adapters import Agent, SqliteRuns, tool

The public names are those in the `__all__` of this package, and of its `server`, `temporal`, `testing` and
`transcripts`; all else may change in any release. A name is imported when it is first asked for: only a program that
uses a vendor's class needs that vendor's package.
"""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel_adapters import server as server
    from loopkernel_adapters import temporal as temporal
    from loopkernel_adapters import testing as testing
    from loopkernel_adapters import transcripts as transcripts
    from loopkernel_adapters.agent import Agent as Agent
    from loopkernel_adapters.blocking_ports import BlockingRuns as BlockingRuns
    from loopkernel_adapters.blocking_ports import BlockingStore as BlockingStore
    from loopkernel_adapters.driver.asyncio_driver import Driver as Driver
    from loopkernel_adapters.driver.children import InProcessAgents as InProcessAgents
    from loopkernel_adapters.driver.clocks import ManualClock as ManualClock
    from loopkernel_adapters.driver.clocks import WallClock as WallClock
    from loopkernel_adapters.driver.taking_up import SettingsDiffer as SettingsDiffer
    from loopkernel_adapters.fleet.running import FleetRun as FleetRun
    from loopkernel_adapters.fleet.worker import Worker as Worker
    from loopkernel_adapters.fleet_ports import Fleet as Fleet
    from loopkernel_adapters.optional_ports import Agents as Agents
    from loopkernel_adapters.optional_ports import Corrector as Corrector
    from loopkernel_adapters.optional_ports import Handoffs as Handoffs
    from loopkernel_adapters.optional_ports import Hooks as Hooks
    from loopkernel_adapters.optional_ports import OptionalPorts as OptionalPorts
    from loopkernel_adapters.optional_ports import Summariser as Summariser
    from loopkernel_adapters.optional_ports import SummaryError as SummaryError
    from loopkernel_adapters.ports import Clock as Clock
    from loopkernel_adapters.ports import NoSuchRun as NoSuchRun
    from loopkernel_adapters.ports import Observer as Observer
    from loopkernel_adapters.ports import Provider as Provider
    from loopkernel_adapters.ports import ProviderUnavailable as ProviderUnavailable
    from loopkernel_adapters.ports import Restored as Restored
    from loopkernel_adapters.ports import RulesDiffer as RulesDiffer
    from loopkernel_adapters.ports import RunContext as RunContext
    from loopkernel_adapters.ports import RunEntry as RunEntry
    from loopkernel_adapters.ports import RunFailed as RunFailed
    from loopkernel_adapters.ports import RunPage as RunPage
    from loopkernel_adapters.ports import Runs as Runs
    from loopkernel_adapters.ports import Store as Store
    from loopkernel_adapters.ports import StoreCorrupt as StoreCorrupt
    from loopkernel_adapters.ports import StoreError as StoreError
    from loopkernel_adapters.ports import StoreFailed as StoreFailed
    from loopkernel_adapters.ports import StoreLocked as StoreLocked
    from loopkernel_adapters.ports import ToolError as ToolError
    from loopkernel_adapters.ports import Tools as Tools
    from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider as AnthropicProvider
    from loopkernel_adapters.providers.local.provider import LocalProvider as LocalProvider
    from loopkernel_adapters.providers.named import ProviderByModel as ProviderByModel
    from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider as OpenAIChatProvider
    from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider as OpenAIResponsesProvider
    from loopkernel_adapters.providers.pydantic_ai import PydanticAIProvider as PydanticAIProvider
    from loopkernel_adapters.providers.recorded import RecordedProvider as RecordedProvider
    from loopkernel_adapters.providers.scripted import ScriptedProvider as ScriptedProvider
    from loopkernel_adapters.providers.scripted import call_reply as call_reply
    from loopkernel_adapters.providers.scripted import text_reply as text_reply
    from loopkernel_adapters.secrets import Secrets as Secrets
    from loopkernel_adapters.sessions.event_buffer import AgentEvent as AgentEvent
    from loopkernel_adapters.sessions.event_buffer import EventsDropped as EventsDropped
    from loopkernel_adapters.sessions.result import NoAnswer as NoAnswer
    from loopkernel_adapters.sessions.result import Result as Result
    from loopkernel_adapters.sessions.session import Session as Session
    from loopkernel_adapters.sessions.session import Turn as Turn
    from loopkernel_adapters.sessions.waiting_calls import Answer as Answer
    from loopkernel_adapters.sessions.waiting_calls import Approver as Approver
    from loopkernel_adapters.sessions.waiting_calls import WaitingCall as WaitingCall
    from loopkernel_adapters.stores.folders import JsonlFolder as JsonlFolder
    from loopkernel_adapters.stores.jsonl import JsonlStore as JsonlStore
    from loopkernel_adapters.stores.jsonl import read_log as read_log
    from loopkernel_adapters.stores.memory import MemoryRuns as MemoryRuns
    from loopkernel_adapters.stores.memory import MemoryStore as MemoryStore
    from loopkernel_adapters.stores.postgres import PostgresRuns as PostgresRuns
    from loopkernel_adapters.stores.seals import Seals as Seals
    from loopkernel_adapters.stores.sqlite import SqliteRuns as SqliteRuns
    from loopkernel_adapters.stores.sqlite import SqliteStore as SqliteStore
    from loopkernel_adapters.telemetry.replayed import export_log as export_log
    from loopkernel_adapters.telemetry.watching import Telemetry as Telemetry
    from loopkernel_adapters.tools.coding import coding_tools as coding_tools
    from loopkernel_adapters.tools.files import FileTools as FileTools
    from loopkernel_adapters.tools.files import Workspace as Workspace
    from loopkernel_adapters.tools.functions import tool as tool
    from loopkernel_adapters.tools.mcp import HttpServer as HttpServer
    from loopkernel_adapters.tools.mcp import McpTools as McpTools
    from loopkernel_adapters.tools.mcp import StdioServer as StdioServer
    from loopkernel_adapters.tools.mcp import open_servers as open_servers
    from loopkernel_adapters.tools.registry import CombinedTools as CombinedTools
    from loopkernel_adapters.tools.registry import FunctionTool as FunctionTool
    from loopkernel_adapters.tools.registry import Registry as Registry
    from loopkernel_adapters.tools.sandbox import Sandbox as Sandbox
    from loopkernel_adapters.tools.shell import Shell as Shell
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel_adapters.agent": "Agent",
            "loopkernel_adapters.driver.asyncio_driver": "Driver",
            "loopkernel_adapters.driver.children": "InProcessAgents",
            "loopkernel_adapters.driver.clocks": "ManualClock WallClock",
            "loopkernel_adapters.driver.taking_up": "SettingsDiffer",
            "loopkernel_adapters.sessions.event_buffer": "AgentEvent EventsDropped",
            "loopkernel_adapters.blocking_ports": "BlockingRuns BlockingStore",
            "loopkernel_adapters.fleet_ports": "Fleet",
            "loopkernel_adapters.fleet.running": "FleetRun",
            "loopkernel_adapters.fleet.worker": "Worker",
            "loopkernel_adapters.optional_ports": "Agents Corrector Handoffs "
            "Hooks OptionalPorts Summariser SummaryError",
            "loopkernel_adapters.ports": "Clock NoSuchRun Observer Provider ProviderUnavailable Restored RulesDiffer "
            "RunContext RunEntry RunFailed RunPage Runs Store StoreCorrupt StoreError StoreFailed StoreLocked "
            "ToolError Tools",
            "loopkernel_adapters.providers.anthropic.provider": "AnthropicProvider",
            "loopkernel_adapters.providers.local.provider": "LocalProvider",
            "loopkernel_adapters.providers.named": "ProviderByModel",
            "loopkernel_adapters.providers.openai.chat": "OpenAIChatProvider",
            "loopkernel_adapters.providers.openai.responses": "OpenAIResponsesProvider",
            "loopkernel_adapters.providers.pydantic_ai": "PydanticAIProvider",
            "loopkernel_adapters.providers.recorded": "RecordedProvider",
            "loopkernel_adapters.providers.scripted": "ScriptedProvider call_reply text_reply",
            "loopkernel_adapters.secrets": "Secrets",
            "loopkernel_adapters.sessions.result": "NoAnswer Result",
            "loopkernel_adapters.sessions.session": "Session Turn",
            "loopkernel_adapters.stores.folders": "JsonlFolder",
            "loopkernel_adapters.stores.jsonl": "JsonlStore read_log",
            "loopkernel_adapters.stores.memory": "MemoryRuns MemoryStore",
            "loopkernel_adapters.stores.postgres": "PostgresRuns",
            "loopkernel_adapters.stores.seals": "Seals",
            "loopkernel_adapters.stores.sqlite": "SqliteRuns SqliteStore",
            "loopkernel_adapters.telemetry.replayed": "export_log",
            "loopkernel_adapters.telemetry.watching": "Telemetry",
            "loopkernel_adapters.tools.coding": "coding_tools",
            "loopkernel_adapters.tools.files": "FileTools Workspace",
            "loopkernel_adapters.tools.functions": "tool",
            "loopkernel_adapters.tools.mcp": "HttpServer McpTools StdioServer open_servers",
            "loopkernel_adapters.tools.registry": "CombinedTools FunctionTool Registry",
            "loopkernel_adapters.tools.sandbox": "Sandbox",
            "loopkernel_adapters.tools.shell": "Shell",
            "loopkernel_adapters.sessions.waiting_calls": "Answer Approver WaitingCall",
        },
        namespaces="server temporal testing transcripts",
    )
