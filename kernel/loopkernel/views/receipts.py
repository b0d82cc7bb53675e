"""What has become of each input: a fold over the events, for a screen, or a caller that waits (rule DELTA-6).

receipts = Receipts()
for effects in run:
    receipts = receipts.after(effects)
receipts.of_key("mail-17")  # where that message is now, or that it was refused
"""

from collections.abc import Iterable
from typing import final

from attrs import evolve, frozen

from loopkernel.data.effects import Effect
from loopkernel.data.events import InputSettled, Refused
from loopkernel.data.ids import ReceiptId
from loopkernel.data.words import InputFate, RefusalReason


@final
@frozen
class Receipt:
    """An accepted input, by the caller's own key where it gave one, and what has become of it."""

    id: ReceiptId
    fate: InputFate
    key: str | None = None


@final
@frozen(kw_only=True)
class Receipts:
    """The inputs of a run so far, in the order in which they were accepted; and why keys were refused, the last time.

    A `duplicate` is not kept: what the key named first still has its own fate.
    """

    accepted: tuple[Receipt, ...] = ()
    refused: tuple[tuple[str, RefusalReason], ...] = ()

    def after(self, effects: Iterable[Effect]) -> "Receipts":
        """The receipts after the effects of one more step."""
        receipts = self
        for effect in effects:
            if isinstance(effect, InputSettled):
                receipts = receipts._settled(effect)
            elif isinstance(effect, Refused) and effect.reason is not RefusalReason.DUPLICATE:
                receipts = receipts._not_taken(effect)
        return receipts

    def _not_taken(self, refusal: Refused) -> "Receipts":
        if refusal.key is None:
            return self
        others = tuple(known for known in self.refused if known[0] != refusal.key)
        return evolve(self, refused=(*others, (refusal.key, refusal.reason)))

    def _settled(self, settled: InputSettled) -> "Receipts":
        place = settled.receipt - 1  # receipts are numbered as they are accepted
        known = self.accepted[place : place + 1]
        key = known[0].key if known else settled.key
        receipt = Receipt(settled.receipt, settled.fate, key)
        refused = tuple(refusal for refusal in self.refused if refusal[0] != key)
        return Receipts(accepted=(*self.accepted[:place], receipt, *self.accepted[place + 1 :]), refused=refused)

    def of_key(self, key: str) -> Receipt | RefusalReason | None:
        """What has become of the input with the caller's key; None if it was never sent."""
        accepted = next((receipt for receipt in self.accepted if receipt.key == key), None)
        return accepted or next((reason for name, reason in self.refused if name == key), None)
