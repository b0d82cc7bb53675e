"""The agent behind HTTP: an ASGI app over an agent and its runs. Needs the extra `server`; see docs/http.md.

    app = app_of(Agent("anthropic:NAME"), token="...", hosts=lambda: ("127.0.0.1:8000",))

Public is what stands in `__all__`; it is imported when it is first asked for.
"""

TYPE_CHECKING = False  # as a type checker knows the name; importing `typing` would cost more than all else here
if TYPE_CHECKING:
    from loopkernel_adapters.server.app import app_of as app_of
else:
    from loopkernel.public_names import offered_names

    __getattr__, __dir__, __all__ = offered_names(__name__, {"loopkernel_adapters.server.app": "app_of"})
