"""The default: what this project would choose for an agent at a person's side."""

from loopkernel.data.policy import Policy

DEFAULT = Policy()
