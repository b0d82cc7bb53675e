"""A scenario in memory: the world around the loop, what its user does, and what is expected."""
