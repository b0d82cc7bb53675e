"""What the kernel says in words that a law must know: the contract in texts, told here a second time."""

REDACTED = "[redacted]"  # in the place of a secret (rule TOOL-12)
CLEARED = "(The output of this call was removed to save space. Call the tool again if you need it.)"  # TOOL-11
STOPPED = "(The reply before this message was stopped before it was complete.)"  # CANCEL-4
LOST = "The result of this call was never recorded. Whether the call had an effect is not known."  # RESUME-5
UNNAMED = "invalid_tool_name"  # a call whose tool has no name (rule INFER-2)
