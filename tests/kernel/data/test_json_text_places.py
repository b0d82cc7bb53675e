"""Where a text ceases to be JSON is told by the place of the first character that fits nowhere."""

import pytest
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import parse_json


@pytest.mark.parametrize(
    ("text", "column"),
    [('{"a":1,"b" 2}', 12), ('{"a":1,"b":2 3}', 14), ('{"a":1,}', 8), ("[1,2 3]", 6), ('{"a":[1,"b":2]}', 12)],
)
def test_the_column_is_that_of_the_first_misplaced_part(text: str, column: int) -> None:
    with pytest.raises(CodecError) as caught:
        parse_json(text)
    assert f"column {column} on" in str(caught.value)
