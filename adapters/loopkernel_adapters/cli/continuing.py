"""`loopkernel continue FILE`: a chat on the repaired conversation of a recording, as a new run."""

from contextlib import ExitStack
from pathlib import Path

from attrs import evolve
from loopkernel.data.choices import Lifetime

from loopkernel_adapters.cli.chat import play_chat
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.recording_files import is_sound_log, read_in_words
from loopkernel_adapters.cli.repair import chosen, tell_faults
from loopkernel_adapters.cli.screen import NoScreen, Screen
from loopkernel_adapters.cli.session import begun
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.source import Source


def continue_recording(path: Path, conversation: str | None, options: Options, screen: Screen) -> ExitStatus:
    """Hold a chat that begins where the recording ends. Raises Unusable when that cannot be."""
    with read_in_words(path):
        if is_sound_log(path):
            raise Unusable(f"{path} is a log of loopkernel: go on with `{command('resume', path)}`")
        found = repaired_conversations(Source(path))
        name = chosen(found, conversation, path)
    shown = NoScreen() if options.json else screen
    tell_faults(found.faults, found.format, shown)
    messages = found.messages[name]
    shown.labelled("begins", f"from {counted(len(messages), 'message')} of {path}{f' ({name})' if name else ''}")
    others = [each for each in found.messages if each != name]
    if others and conversation is None:
        shown.labelled("others", f"{counted(len(others), 'conversation')}, such as --conversation {others[0]!r}")
    with ExitStack() as resources:
        bench = begun(options, Lifetime.SESSION, resources)
        bench = evolve(bench, created=evolve(bench.created, start=messages))
        return play_chat(bench, (), options, screen)
