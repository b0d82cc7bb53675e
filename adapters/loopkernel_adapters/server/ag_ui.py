"""AG-UI: not yet."""

from starlette.responses import Response

from loopkernel_adapters.server.bodies import Object, Wrong
from loopkernel_adapters.server.open_runs import OpenRuns


async def ag_ui_run(runs: OpenRuns, body: Object) -> Response:
    """Refused for now."""
    raise Wrong(501, "not-yet", "AG-UI is not served yet")
