"""The agent as one that editors start, by the Agent Client Protocol. Needs the extra `acp`."""

from importlib.util import find_spec

if find_spec("acp") is None:
    raise ImportError("editors are served by an extra: pip install 'loopkernel[acp]'")
