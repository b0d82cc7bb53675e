"""Tools as data: what is offered to the model, what a call of it touches, and how a call is judged and answered.

Public: all that stands in `__all__`.
"""

from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    InvalidCall,
    ResourceRule,
    Tool,
    ToolOutput,
    ToolProfile,
    UnknownTool,
    ValidCall,
    Verdict,
)

__all__ = [
    "AccessMode",
    "Claim",
    "Decision",
    "EffectClass",
    "FieldResource",
    "FixedResource",
    "InvalidCall",
    "ResourceRule",
    "Tool",
    "ToolOutput",
    "ToolProfile",
    "UnknownTool",
    "ValidCall",
    "Verdict",
]
