"""Pure algorithms over data: no state, no effect."""
