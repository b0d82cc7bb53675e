"""Checks of adapters and of recordings, for whoever writes one. Only tests and developers need them.

Public is what stands in `__all__`.
"""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel_adapters.testing.driver_check import check_driver as check_driver
    from loopkernel_adapters.testing.driver_process import DriverProcess as DriverProcess
    from loopkernel_adapters.testing.driver_trial import DriverPorts as DriverPorts
    from loopkernel_adapters.testing.fuzzing.check import fuzz_driver as fuzz_driver
    from loopkernel_adapters.testing.fuzzing.machine import DriverMachine as DriverMachine
    from loopkernel_adapters.testing.provider_check import Situation as Situation
    from loopkernel_adapters.testing.provider_check import Staged as Staged
    from loopkernel_adapters.testing.provider_check import check_provider as check_provider
    from loopkernel_adapters.testing.provider_check import request_for_check as request_for_check
    from loopkernel_adapters.testing.recordings_plugin import recordings as recordings
    from loopkernel_adapters.testing.store_check import check_store as check_store
    from loopkernel_adapters.testing.synchronous import Synchronous as Synchronous
    from loopkernel_adapters.testing.synchronous import SynchronousPorts as SynchronousPorts
    from loopkernel_adapters.testing.tools_check import EndlessCall as EndlessCall
    from loopkernel_adapters.testing.tools_check import ToolsTrial as ToolsTrial
    from loopkernel_adapters.testing.tools_check import check_tools as check_tools
    from loopkernel_adapters.testing.trio_driver import Trio as Trio
    from loopkernel_adapters.transcripts.entries import FindingKind as FindingKind
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel_adapters.testing.driver_check": "check_driver",
            "loopkernel_adapters.testing.driver_process": "DriverProcess",
            "loopkernel_adapters.testing.driver_trial": "DriverPorts",
            "loopkernel_adapters.testing.fuzzing.check": "fuzz_driver",
            "loopkernel_adapters.testing.fuzzing.machine": "DriverMachine",
            "loopkernel_adapters.testing.provider_check": "Situation Staged check_provider request_for_check",
            "loopkernel_adapters.testing.recordings_plugin": "recordings",
            "loopkernel_adapters.testing.store_check": "check_store",
            "loopkernel_adapters.testing.synchronous": "Synchronous SynchronousPorts",
            "loopkernel_adapters.testing.tools_check": "EndlessCall ToolsTrial check_tools",
            "loopkernel_adapters.testing.trio_driver": "Trio",
            "loopkernel_adapters.transcripts.entries": "FindingKind",
        },
    )
