"""A reader per format: what its records say, as entries."""
