"""What a model call used, in tokens."""

from attrs import field

from loopkernel.data.checked_fields import at_least, checked_fields
from loopkernel.data.value_classes import frozen

_COUNT = at_least(0)


@frozen(field_transformer=checked_fields)
class Usage:
    """Token counts, each 0 or more. `input` excludes what was read from or written to a cache."""

    input: int = field(default=0, validator=_COUNT)
    output: int = field(default=0, validator=_COUNT)
    cache_read: int = field(default=0, validator=_COUNT)
    cache_write: int = field(default=0, validator=_COUNT)

    def most(self, other: "Usage") -> "Usage":
        """The larger of each field: how reports within one reply merge (rule INFER-3)."""
        if other is NO_USAGE:  # as most deltas report none
            return self
        return Usage(
            max(self.input, other.input),
            max(self.output, other.output),
            max(self.cache_read, other.cache_read),
            max(self.cache_write, other.cache_write),
        )

    def plus(self, other: "Usage") -> "Usage":
        """The sum of each field: how replies add up."""
        if other is NO_USAGE:
            return self
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    def beyond(self, counted: "Usage") -> "Usage":
        """What this report adds to what was counted of the same reply before; never negative."""
        return Usage(
            max(self.input - counted.input, 0),
            max(self.output - counted.output, 0),
            max(self.cache_read - counted.cache_read, 0),
            max(self.cache_write - counted.cache_write, 0),
        )

    @property
    def total(self) -> int:
        """All tokens: input, output and cache together."""
        return self.input + self.output + self.cache_read + self.cache_write


NO_USAGE = Usage()
