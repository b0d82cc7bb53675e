"""What work costs, counted in calls of Python functions: the same on any machine, however busy it is."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def python_calls(work: Callable[[T], object], of: T) -> int:
    """How many Python functions the work calls."""
    count = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work(of)
    finally:
        sys.setprofile(before)
    return count
