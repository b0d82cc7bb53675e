"""What a run was begun with, kept beside its log, so that it can be gone on with by its id alone.

The log does not need it, and no part of the conversation depends on it: where it is lost, the options say it again.
A folder that was cloned or unpacked may hold a note that others wrote. Nothing of it is believed, since it would run
programs, and have keys sent elsewhere: each note bears the number of its own file, which no copy has.
"""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import evolve, frozen

from loopkernel_adapters.cli.options import Isolation, Options, ToolSet
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import OneFile, Place, run_or_file
from loopkernel_adapters.stores.durable_files import write_all

OWNER_ONLY, FOLDER_OF_OWNER = 0o600, 0o700
LONGEST_NOTE = 1 << 20  # bytes
OF_OTHERS = 0o077  # what a mode grants to others


def note(place: Place, run: str, options: Options) -> None:
    """Keep it. Failing to do so loses nothing else."""
    path = place.note_file(run)
    if path is None:
        return
    noted = {
        "model": options.first_model,
        "base_url": options.base_url,
        "fallback_models": list(options.fallback_models),
        "workspace": str(options.folder.absolute()),
        "tools": options.tool_set.value,
        "isolation": None if options.isolation is None else options.isolation.value,
        "sub_agents": options.sub_agents,
        "secrets": dict(options.secrets),
        "servers": dict(options.servers),
        "server_variables": list(options.server_variables),
        "server_headers": list(options.server_headers),
    }
    with suppress(OSError):
        _put(path, noted, own_folder=not isinstance(place, OneFile))


def _put(path: Path, noted: Mapping[str, object], *, own_folder: bool) -> None:
    """Put the note there, whole, in the place of an older one. What a link leads to is never written. Raises OSError.

    `own_folder`: the folder is for notes alone, and made where it is missing.
    """
    if own_folder:
        with suppress(FileExistsError):
            path.parent.mkdir(mode=FOLDER_OF_OWNER)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | (os.O_NOFOLLOW if own_folder else 0))
    unfinished = f"{path.name}~"
    try:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)  # what a process left that died here
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY, dir_fd=folder)
        try:
            number = os.fstat(descriptor).st_ino
            write_all(descriptor, json.dumps({**noted, "file": number}).encode("utf-8"))
        finally:
            os.close(descriptor)
        os.rename(unfinished, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def remembered(place: Place, run: str, given: Options) -> Options:
    """What is given now, and for what is not, what the run was begun with.

    Raises Unusable where others may have written that, and not even a model is given now.
    """
    noted = _noted(place, run)
    if not noted.own and given.model is None:
        raise _of_others(place, run)
    begun = noted.options if noted.own else Options()
    if given.model is not None:  # another model, which has nothing to do with the address of the first
        begun = evolve(begun, base_url=None, fallback_models=())
    if given.servers:  # other servers, which have nothing to do with what the first ones got
        begun = evolve(begun, servers=(), server_variables=(), server_headers=())
    isolated = given if given.isolation else begun
    return evolve(
        given,
        model=given.model or begun.model,
        base_url=given.base_url or begun.base_url,
        fallback_models=given.fallback_models or begun.fallback_models,
        workspace=given.workspace or begun.workspace,
        tools=given.tools or begun.tools,
        sandbox=isolated.sandbox,
        sandbox_network=isolated.sandbox_network,
        sub_agents=given.sub_agents or begun.sub_agents,
        secrets=given.secrets or begun.secrets,
        servers=given.servers or begun.servers,
        server_variables=given.server_variables or begun.server_variables,
        server_headers=given.server_headers or begun.server_headers,
    )


def begun_with(place: Place, run: str) -> Options | None:
    """What the run was begun with; None where that was not noted. Raises Unusable where it may be a trap."""
    found = remembered(place, run, Options())
    return None if found == Options() else found


def note_again(place: Place, run: str, given: Options, options: Options) -> None:
    """Keep what was said of servers, which from now on are those of the run; and make a note of others one's own.

    `options` is what `remembered` made of `given`.
    """
    noted = _noted(place, run)
    if noted.own and not (given.servers or given.server_variables or given.server_headers):
        return
    begun = noted.options if noted.own and noted.options != Options() else options
    servers, variables, headers = options.servers, options.server_variables, options.server_headers
    note(place, run, evolve(begun, servers=servers, server_variables=variables, server_headers=headers))


@frozen
class _Noted:
    """What a note says; `own`: whether the person whose program this is has written it, and here."""

    path: Path | None
    options: Options
    own: bool


def _noted(place: Place, run: str) -> _Noted:
    """The note of that run. One that is not there, or damaged, says nothing.

    A log that was named by its path needs none; in a store each run has one, unless others have put the run there.
    """
    path = place.note_file(run)
    nothing = _Noted(path, Options(), own=path is None or isinstance(place, OneFile))
    if path is None:
        return nothing
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may be a link, or a pipe
        with open(descriptor, encoding="utf-8") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LONGEST_NOTE:
                return nothing
            noted = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return nothing
    if not isinstance(noted, dict):
        return nothing
    own = os.name != "posix" or (
        found.st_uid == os.getuid() and not found.st_mode & OF_OTHERS and noted.get("file") == found.st_ino
    )
    return _Noted(path, _options(noted), own)


def _of_others(place: Place, run: str) -> Unusable:
    again = place.command("resume", run_or_file(place, run), "--model")
    shown = place.command("log", run_or_file(place, run))
    path = place.note_file(run)
    problem = "is not as it was written here" if path is not None and path.exists() else "is not there"
    return Unusable(
        "others may have recorded this run, as in a folder that was cloned or copied: what would say whom keys are "
        f"sent to, and what is run, {problem} ({path}). Look at it, and at `{shown}`; then say yourself what the "
        f"run needs: `{again} MODEL`, with --workspace, --base-url, --mcp and --secret where it had them, with "
        "--sandbox where it was isolated, and with --approve ask where it did not ask"
    )


def _options(noted: Mapping[str, object]) -> Options:
    """The options that were noted; what is not as it was written counts as not said."""
    model, base_url, workspace, tools = (_text(noted, key) for key in ("model", "base_url", "workspace", "tools"))
    secrets = noted.get("secrets")
    names = secrets if isinstance(secrets, dict) else {}
    servers = noted.get("servers")
    pins = servers if isinstance(servers, dict) else {}
    return Options(
        model=model,
        base_url=base_url,
        fallback_models=_texts(noted, "fallback_models"),
        workspace=None if workspace is None else Path(workspace),
        tools=next((choice for choice in ToolSet if choice.value == tools), None),
        sandbox=noted.get("isolation") == Isolation.SANDBOX.value,
        sandbox_network=noted.get("isolation") == Isolation.SANDBOX_NETWORK.value,
        sub_agents=noted.get("sub_agents") is True,
        secrets=tuple((str(name), str(variable)) for name, variable in names.items()),
        servers=tuple((text, pin) for text, pin in pins.items() if isinstance(text, str) and isinstance(pin, str)),
        server_variables=_texts(noted, "server_variables"),
        server_headers=_texts(noted, "server_headers"),
    )


def _texts(noted: Mapping[str, object], key: str) -> tuple[str, ...]:
    found = noted.get(key)
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _text(noted: Mapping[str, object], key: str) -> str | None:
    found = noted.get(key)
    return found if isinstance(found, str) and found and "\0" not in found else None
