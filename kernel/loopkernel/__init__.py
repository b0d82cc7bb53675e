"""A pure kernel for the loop of an agent: data, one transition, laws."""
