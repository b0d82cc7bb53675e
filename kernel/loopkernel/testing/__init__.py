"""The test kit, shipped under the extra `testing`; `specs/testing.md` shows how to use it.

- `scenarios`: reads, plays and judges scenario files; `python -m loopkernel.testing.scenarios PATH...`
- `explorer`: every run within a scope, the shortest breach first
- `stateful`: any run at all, by a state machine of Hypothesis
- `strategies`: a Hypothesis strategy for every datum
- `played`: runs played by hand, for a test that needs one run
- `conformance`: a kernel that is another program, and golden logs of other releases
- `planted`: kernels with a planted bug, to see whether tests would notice
- `witness` and the modules named `slow_...`: second opinions that share no code with the kernel
"""
