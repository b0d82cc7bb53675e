"""The test kit, shipped under the extra `testing`; `specs/testing.md` shows how to use it.

- `scenarios`: reads, plays and judges scenario files; `python -m loopkernel.testing.scenarios PATH...`
- `explorer`: every run within a scope, the shortest breach first
- `stateful`: any run at all, by a state machine of Hypothesis
- `strategies`: a Hypothesis strategy for every datum
- `played`: runs played by hand, for a test that needs one run
- `conformance`: a kernel that is another program, and golden logs of other releases
- `planted`: kernels with a planted bug, to see whether tests would notice
- `run`: one run, a delta at a time; every player above is one, with its own choice of the next delta
- `witness` and the modules named `slow_...`: second opinions that share no code with the kernel

Public is what stands in `__all__`.
"""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel.testing import conformance as conformance
    from loopkernel.testing import explorer as explorer
    from loopkernel.testing import planted as planted
    from loopkernel.testing import played as played
    from loopkernel.testing import scenarios as scenarios
    from loopkernel.testing import stateful as stateful
    from loopkernel.testing import strategies as strategies
    from loopkernel.testing.explorer.explore import explore as explore
    from loopkernel.testing.explorer.moves import moves as moves
    from loopkernel.testing.explorer.scope import Scope as Scope
    from loopkernel.testing.explorer.views import outline as outline
    from loopkernel.testing.planted.bugs import PLANTED as PLANTED
    from loopkernel.testing.planted.planting import breached_laws as breached_laws
    from loopkernel.testing.planted.planting import explaining as explaining
    from loopkernel.testing.planted.runs import SCRIPTS as SCRIPTS
    from loopkernel.testing.scenarios.format.document import read_scenario_file as read_scenario_file
    from loopkernel.testing.scenarios.format.document import read_scenarios as read_scenarios
    from loopkernel.testing.scenarios.format.nodes import ScenarioError as ScenarioError
    from loopkernel.testing.scenarios.judge import run_scenario as run_scenario
    from loopkernel.testing.scenarios.player.drive import Drive as Drive
    from loopkernel.testing.scenarios.player.effective_policy import effective_policy as effective_policy
    from loopkernel.testing.scenarios.trace import matches as matches
    from loopkernel.testing.stateful.machine import KernelMachine as KernelMachine
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel.testing.explorer.explore": "explore",
            "loopkernel.testing.explorer.moves": "moves",
            "loopkernel.testing.explorer.scope": "Scope",
            "loopkernel.testing.explorer.views": "outline",
            "loopkernel.testing.planted.bugs": "PLANTED",
            "loopkernel.testing.planted.planting": "breached_laws explaining",
            "loopkernel.testing.planted.runs": "SCRIPTS",
            "loopkernel.testing.scenarios.format.document": "read_scenario_file read_scenarios",
            "loopkernel.testing.scenarios.format.nodes": "ScenarioError",
            "loopkernel.testing.scenarios.judge": "run_scenario",
            "loopkernel.testing.scenarios.player.drive": "Drive",
            "loopkernel.testing.scenarios.player.effective_policy": "effective_policy",
            "loopkernel.testing.scenarios.trace": "matches",
            "loopkernel.testing.stateful.machine": "KernelMachine",
        },
        namespaces="conformance explorer planted played scenarios stateful strategies",
    )
