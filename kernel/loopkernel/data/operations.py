"""What was started outside: how many operations of each kind, and which were closed otherwise.

An operation that is not open now was closed by its own report, unless it is recorded here as abandoned.
That is enough to name any late report `duplicate`, `stale` or `unknown` (rule DELTA-2) without keeping
a record of every operation. An abandoned model call keeps the usage counted for it so far, since a late
report is billed only for what is beyond that.
"""

from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.usage import Usage
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.vector import GrowingSet, Vector


@frozen
class AbandonedModelCall:
    """A model call closed before its own report, and the usage counted for it so far."""

    operation: ModelOperation
    counted: Usage


@frozen
class Operations:
    """`minted[kind]` ids of a kind were given out, numbered from 1; `abandoned[kind]` were cut short.

    Of these, `billed[kind]` have reported their usage late; model calls are told apart above.
    """

    minted: tuple[int, ...] = (0,) * len(OperationKind)
    abandoned: tuple[GrowingSet[int], ...] = (GrowingSet(),) * len(OperationKind)
    abandoned_models: Vector[AbandonedModelCall] = Vector()  # in ascending order of operation
    billed: tuple[GrowingSet[int], ...] = (GrowingSet(),) * len(OperationKind)

    def mint(self, kind: OperationKind) -> tuple["Operations", int]:
        """One more id of the kind."""
        number = self.minted[kind] + 1
        minted = list(self.minted)
        minted[kind] = number
        return new_operations(tuple(minted), self.abandoned, self.abandoned_models, self.billed), number

    def abandon(self, kind: OperationKind, number: int) -> "Operations":
        """The operation is closed by something else than its own report."""
        kept = self.abandoned[kind].add(number)
        abandoned = (*self.abandoned[:kind], kept, *self.abandoned[kind + 1 :])
        return new_operations(self.minted, abandoned, self.abandoned_models, self.billed)

    def abandon_model(self, operation: ModelOperation, counted: Usage) -> "Operations":
        """The model call is cut short; `counted` is what its reply has been billed for so far."""
        calls = self.abandoned_models.append(AbandonedModelCall(operation, counted))
        return new_operations(self.minted, self.abandoned, calls, self.billed)

    def bill(self, kind: OperationKind, number: int) -> "Operations":
        """The abandoned operation has reported its usage, which is counted this once."""
        billed = (*self.billed[:kind], self.billed[kind].add(number), *self.billed[kind + 1 :])
        return new_operations(self.minted, self.abandoned, self.abandoned_models, billed)

    def abandoned_model_index(self, operation: ModelOperation) -> int | None:
        """Where in `abandoned_models` the call stands, by bisection; None if it is not there."""
        calls = self.abandoned_models
        low, high = 0, len(calls)
        while low < high:
            middle = (low + high) // 2
            if calls[middle].operation < operation:
                low = middle + 1
            else:
                high = middle
        return low if low < len(calls) and calls[low].operation == operation else None


new_operations = maker(Operations)
