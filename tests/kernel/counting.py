"""What work costs, counted in calls of Python functions, or in lines: the same on any machine, however busy it is."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]  # Any: what sys.settrace asks for


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


def python_lines(work: Callable[[T], object], of: T) -> int:
    """How many lines the work passes: a loop that calls nothing counts too."""
    count = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        work(of)
    finally:
        sys.settrace(before)
    return count
