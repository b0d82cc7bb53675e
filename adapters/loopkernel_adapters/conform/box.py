"""The box that a scenario is played in: network and process namespaces of its own, where the system has them.

Within the network namespace there is the loopback interface and nothing else; when the box ends, so does every process
in it. Where there are no namespaces, the agent runs in a session of its own, and its process group is ended.
"""

import fcntl
import socket
import struct
import subprocess
from functools import cache

_AS_ROOT = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child")
_AS_USER = (*_AS_ROOT, "--user", "--map-current-user", "--keep-caps")
_ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--user", "--map-current-user", "--mount-proc")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8913, 0x8914, 0x1


@cache
def entrance() -> tuple[str, ...]:
    """The command that leads into the box; empty where there is none."""
    return next((command for command in (_AS_ROOT, _AS_USER, _ALONE) if _works(command)), ())


def told() -> str:
    """The box in words."""
    match entrance():
        case ():
            return "not isolated: this system has no namespaces; the agent has the network, and its group is ended"
        case command if "--net" in command:
            return "isolated: network and process namespaces of its own, with the loopback interface alone"
        case _:
            return "partly isolated: a process namespace of its own, but the network of this machine"


def _works(command: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*command, "true"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def raise_loopback() -> None:
    """Make the loopback interface of a new network namespace usable. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(asking, _SIOCGIFFLAGS, request))
        if not flags & _UP:
            fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _UP))
