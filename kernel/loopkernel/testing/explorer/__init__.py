"""Explores every run within a scope, breadth first, with the laws on each step; `explore` is where to begin."""
