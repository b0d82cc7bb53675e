"""Other agents at the same work, each in an environment of its own."""
