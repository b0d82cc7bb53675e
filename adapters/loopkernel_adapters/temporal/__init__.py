"""Runs in Temporal: the kernel's step as a workflow, its commands as activities. Public is what stands in `__all__`.

    worker = temporal_worker(client, "agents", agent)
    run = await start(client, "agents", agent)
    await run.say("Hello")

Names are imported when they are first asked for: the workflow's sandbox loads this file for each run.
"""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel_adapters.temporal.documents import Pace as Pace
    from loopkernel_adapters.temporal.running import InputRefused as InputRefused
    from loopkernel_adapters.temporal.running import TemporalRun as TemporalRun
    from loopkernel_adapters.temporal.running import start as start
    from loopkernel_adapters.temporal.working import temporal_worker as temporal_worker
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel_adapters.temporal.documents": "Pace",
            "loopkernel_adapters.temporal.running": "InputRefused TemporalRun start",
            "loopkernel_adapters.temporal.working": "temporal_worker",
        },
    )
