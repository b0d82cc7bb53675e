"""What a run was begun with, kept beside its log, so that it can be gone on with by its id alone.

The log does not need it, and no part of the conversation depends on it: where it is lost, the options say it again.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from loopkernel_adapters.cli.options import Options, ToolSet
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import Place, told

OWNER_ONLY, FOLDER_OF_OWNER = 0o600, 0o700
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
        "sub_agents": options.sub_agents,
        "secrets": dict(options.secrets),
        "servers": dict(options.servers),
        "server_variables": list(options.server_variables),
    }
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=FOLDER_OF_OWNER)
        path.touch(mode=OWNER_ONLY)
        path.chmod(OWNER_ONLY)
        path.write_text(json.dumps(noted), encoding="utf-8")
    except OSError:
        return


def remembered(place: Place, run: str, given: Options) -> Options:
    """What is given now, and for what is not, what the run was begun with."""
    path = place.note_file(run)
    try:
        noted = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError, RecursionError):
        noted = {}
    begun = _options(noted if isinstance(noted, dict) else {})
    if given.model is not None:  # another model, which has nothing to do with the address of the first
        begun = evolve(begun, base_url=None, fallback_models=())
    return evolve(
        given,
        model=given.model or begun.model,
        base_url=given.base_url or begun.base_url,
        fallback_models=given.fallback_models or begun.fallback_models,
        workspace=given.workspace or begun.workspace,
        tools=given.tools or begun.tools,
        sub_agents=given.sub_agents or begun.sub_agents,
        secrets=given.secrets or begun.secrets,
        servers=given.servers or begun.servers,
        server_variables=given.server_variables or begun.server_variables,
    )


def begun_with(place: Place, run: str) -> Options | None:
    """What the run was begun with; None where that was not noted. Raises Unusable where it is not to be trusted."""
    path = place.note_file(run)
    if path is None or not path.exists():
        return None
    begun = remembered(place, run, Options())
    demand_own_servers(place, run, begun)
    return begun


def demand_own_servers(place: Place, run: str, begun: Options) -> None:
    """Raises Unusable where others may have written the note: the servers that it names are programs, run unasked."""
    path = place.note_file(run)
    if path is None or not begun.servers or os.name != "posix":
        return
    with told("what the run was begun with cannot be read"):
        found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & OF_OTHERS:
        raise Unusable(
            f"{path} names MCP servers, which are run, and others may have written it: look at what it names, then "
            "make it your own file that nobody else can read (chmod 600)"
        )


def _options(noted: Mapping[str, object]) -> Options:
    """The options that were noted; what is not as it was written counts as not said."""
    model, base_url, workspace, tools = (_text(noted, key) for key in ("model", "base_url", "workspace", "tools"))
    models, secrets = noted.get("fallback_models"), noted.get("secrets")
    names = secrets if isinstance(secrets, dict) else {}
    servers, variables = noted.get("servers"), noted.get("server_variables")
    pins = servers if isinstance(servers, dict) else {}
    return Options(
        model=model,
        base_url=base_url,
        fallback_models=tuple(map(str, models)) if isinstance(models, list) else (),
        workspace=None if workspace is None else Path(workspace),
        tools=next((choice for choice in ToolSet if choice.value == tools), None),
        sub_agents=noted.get("sub_agents") is True,
        secrets=tuple((str(name), str(variable)) for name, variable in names.items()),
        servers=tuple((text, pin) for text, pin in pins.items() if isinstance(text, str) and isinstance(pin, str)),
        server_variables=tuple(map(str, variables)) if isinstance(variables, list) else (),
    )


def _text(noted: Mapping[str, object], key: str) -> str | None:
    found = noted.get(key)
    return found if isinstance(found, str) and found and "\0" not in found else None
