"""The life of a session: restarts, forks and handoffs."""
