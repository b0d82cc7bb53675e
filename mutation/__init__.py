"""Mutation testing of the kernel: `python -m mutation`, or `make mutants`. How it works is told in specs/mutation.md.

Nothing here imports the kernel: each mutant is imported anew, in a process of its own.
"""
