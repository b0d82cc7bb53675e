"""Drivers of others in worlds that are drawn from a seed, and judged by the laws. `check` is where to begin."""
