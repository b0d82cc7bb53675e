"""Models behind OpenAI's APIs, and servers that speak as they do. Needs the extra `openai`."""

from importlib.util import find_spec

if find_spec("openai") is None:
    raise ImportError("OpenAI's client is an extra: pip install 'loopkernel[openai]'")
