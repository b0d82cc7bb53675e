"""What each algorithm of the loop should give, told a second time: slow, obvious, and apart from the loop.

The laws judge by these accounts, and by `standing`, `call_input`, `retry_law` and `shares`, which are of the same kind.
Each can be checked against its rule by eye; where the kernel and an account disagree, a law breaks.
"""
