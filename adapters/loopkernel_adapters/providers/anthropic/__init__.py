"""Models of Anthropic's Messages API. Needs the extra `anthropic`."""

from importlib.util import find_spec

if find_spec("anthropic") is None:
    raise ImportError("Anthropic's client is an extra: pip install 'loopkernel[anthropic]'")
