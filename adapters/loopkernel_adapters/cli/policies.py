"""`loopkernel policy`: print a policy as data, check a file, and tell what differs between two."""

import json

from loopkernel.codec import policy_to_text

from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.rules import named_policy
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.taking_up import options_that_differ
from loopkernel_adapters.viewing.plain import plain


def show_policy(name: str, screen: Screen) -> ExitStatus:
    """Print it as a document that `--policy` takes: what is not as by default. Raises Unusable."""
    screen.line(json.dumps(json.loads(policy_to_text(named_policy(name))), indent=2))
    return ExitStatus.NATURAL_END


def check_policy(name: str, screen: Screen) -> ExitStatus:
    """Say that it can be used, or raise Unusable, which tells each fault of it."""
    document = json.loads(policy_to_text(named_policy(name)))
    screen.labelled("usable", f"{name}: {counted(len(document['value']), 'option')} not as by default")
    return ExitStatus.NATURAL_END


def compare_policies(name: str, other: str, screen: Screen) -> ExitStatus:
    """Tell each option that differs, with both values; the status is 1 where one does. Raises Unusable."""
    one, two = named_policy(name), named_policy(other)
    differing = options_that_differ(one, two)
    for option in differing:
        screen.line(option)
        for whose, policy in ((name, one), (other, two)):
            screen.labelled(f"  {in_one_line(whose, 40)}", json.dumps(plain(getattr(policy, option))))
    if not differing:
        screen.labelled("same", f"{name} and {other} differ in no option")
    return ExitStatus.OTHER_END if differing else ExitStatus.NATURAL_END
