"""What `typing` has in a later Python than 3.11: marks that only a type checker reads.

A type checker knows them from `typing_extensions` without that being installed, so nothing else is needed at run time.
"""

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from typing_extensions import TypeIs as TypeIs
    from typing_extensions import TypeVar as TypeVar  # with a default; at run time there is none
    from typing_extensions import override as override
else:
    TypeIs = TypeGuard  # an annotation that nothing reads

    def override(method):
        """The method as it is."""
        return method
