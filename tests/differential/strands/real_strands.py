"""The real Strands in a process of its own: its environment, made on demand, and a line of JSON a script."""

from tests.differential.environments import Environment, NotHad, Playing
from tests.differential.strands.observations import Seen
from tests.differential.strands.scripts import Script

VERSION = "1.62.0"
ENVIRONMENT = Environment(
    name="strands", package="strands-agents", version=VERSION, player="tests.differential.strands.theirs"
)

__all__ = ["ENVIRONMENT", "VERSION", "NotHad", "RealStrands", "ensure_strands"]


def ensure_strands() -> None:
    """Make the environment, unless it is there. Raises NotHad."""
    ENVIRONMENT.ensure()


class RealStrands(Playing):
    """A process that plays one script after the other, in its own `with` block."""

    def __init__(self) -> None:
        super().__init__(ENVIRONMENT)

    def seen_of(self, script: Script) -> Seen:
        """What the real loop makes of the script."""
        seen: Seen = self.play(script)
        return seen
