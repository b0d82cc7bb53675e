"""Recordings of other agents: read, judged, repaired and played. Public is what stands in `__all__`."""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel_adapters.transcripts.replaying import Replayed as Replayed
    from loopkernel_adapters.transcripts.replaying import replayed as replayed
    from loopkernel_adapters.transcripts.source import Source as Source
    from loopkernel_adapters.transcripts.source import Unreadable as Unreadable
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(
        __name__,
        {
            "loopkernel_adapters.transcripts.replaying": "Replayed replayed",
            "loopkernel_adapters.transcripts.source": "Source Unreadable",
        },
    )
