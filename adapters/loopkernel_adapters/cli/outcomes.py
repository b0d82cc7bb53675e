"""How a command ends: its exit status, and the error that is the user's to mend."""

import enum


class ExitStatus(enum.IntEnum):
    """What the shell is told."""

    NATURAL_END = 0  # the model ended the turn by itself; a replayed log is whole and every law held
    OTHER_END = 1  # the turn ended otherwise, a replayed log ends in a torn tail, or what should agree does not
    UNUSABLE = 2  # wrong usage, or something that is needed is missing


class Unusable(Exception):
    """The command cannot do its work. The message says what is wrong, where, and what to do next."""
