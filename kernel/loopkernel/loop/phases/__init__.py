"""The phases of the loop: each takes the deltas that reach it."""
