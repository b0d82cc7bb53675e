"""Cases that are played by the kit of the kernel: scenarios and golden logs."""

from collections.abc import Iterator
from pathlib import Path

from loopkernel.codec import record_to_text
from loopkernel.loop.transition import transition
from loopkernel.testing.conformance.vectors import from_line
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.recording import Recording

from scripts.sameness.corpus import CorpusCase, of_log


def scenarios(root: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """The run of each scenario, and those of its sub-agents."""
    for file in sorted((root / "specs" / "scenarios").rglob("*.yaml"))[share::of]:
        for scenario in read_scenario_file(file):
            run: Recording = Drive(scenario, effective_policy(scenario.policy), transition).run()
            yield of_log(f"scenario {scenario.id}", map(record_to_text, run.log))
            for child in run.children:
                yield of_log(f"scenario {scenario.id}, sub-agent of {child.address}", map(record_to_text, child.log))


def logs(root: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """The golden logs of every release."""
    for file in sorted((root / "specs" / "vectors").glob("release-*.jsonl"))[share::of]:
        for line in file.read_text(encoding="ascii").splitlines():
            golden = from_line(line)
            yield of_log(f"{file.stem}, {golden.scenario}", map(record_to_text, golden.log))
