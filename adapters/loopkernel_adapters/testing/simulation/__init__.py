"""The real driver in a seeded, simulated world, in virtual time: faults everywhere, and the laws all the same."""
