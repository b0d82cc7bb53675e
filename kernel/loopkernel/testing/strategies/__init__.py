"""Hypothesis strategies for every datum of the kernel, small by default; needs the extra `testing`.

`values` and `conversation` hold the parts, `policies`, `deltas`, `effects` and `states` the wholes; `walks` leads to
states that a run really reaches.
"""
