"""The agent behind HTTP: an ASGI app over an agent and its runs. Needs the extra `server`; see docs/http.md."""
