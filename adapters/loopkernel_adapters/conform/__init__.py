"""Loops of others, judged by the laws from what is seen of them from outside: `loopkernel conform`."""
