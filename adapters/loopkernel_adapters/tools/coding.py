"""The tools of a coding agent for one workspace: read, write, edit, list, glob, grep, and a shell."""

from collections.abc import Callable, Mapping
from functools import partial

from attrs import frozen
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, Tool, ToolOutput, ToolProfile

from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.tools.editing import edit
from loopkernel_adapters.tools.files import DEFAULT_READ_BYTES, Workspace
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.paths import one_spelling
from loopkernel_adapters.tools.processes import Confined, strongest_confinement
from loopkernel_adapters.tools.reading import read_lines
from loopkernel_adapters.tools.registry import FunctionTool
from loopkernel_adapters.tools.searching import LineSearch, SearchProcess, find_files, find_lines
from loopkernel_adapters.tools.shell import Shell
from loopkernel_adapters.tools.threads import Aborted, run_in_thread

_READS = ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),), early=True)
_SEARCHES = ToolProfile(
    effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ, tree=True),), early=True
)
_PATH: JsonObject = {"type": "string", "description": "relative to the workspace"}
_FOLDER: JsonObject = {"type": "string", "description": "a folder, relative to the workspace", "default": "."}


def coding_tools(
    workspace: Workspace,
    *,
    shell: bool = True,
    environment: Mapping[str, str] | None = None,
    confined: Confined | None = None,
    approval: Decision = Decision.ASK,
    most_bytes: int = DEFAULT_READ_BYTES,
) -> tuple[FunctionTool, ...]:
    """`read_file`, `write_file`, `edit_file`, `list_files`, `glob`, `grep`, and with `shell` also `shell`.

    `approval` is what is decided on those that change something, where no rule of the session says otherwise.
    `environment` and `confined` are for the shell (`shell.py`). `most_bytes` is what `read_file` shows at most.
    """
    tools = _FileTools(workspace, approval, most_bytes)
    found = (tools.read(), tools.write(), tools.edit(), tools.list(), tools.glob(), tools.grep())
    if not shell:
        return found
    held = strongest_confinement() if confined is None else confined
    return (*found, Shell(workspace, environment or {}, held, approval=approval).tool())


@frozen
class _FileTools:
    """The tools that need no process of the model's own choice."""

    workspace: Workspace
    approval: Decision
    most_bytes: int

    @property
    def key_of_call(self) -> Callable[[str], str]:
        """The key of the path that a call gives."""
        return one_spelling(self.workspace.canonical, self.workspace.key)

    def _writes(self, effect: EffectClass) -> ToolProfile:
        return ToolProfile(effect=effect, resources=(FieldResource("path", AccessMode.WRITE),), approval=self.approval)

    def _made(
        self,
        name: str,
        description: str,
        fields: JsonObject,
        function: Callable[[JsonObject, Aborted], ToolOutput | str],
        profile: ToolProfile = _READS,
    ) -> FunctionTool:
        needed: list[JsonValue] = [
            given for given, field in fields.items() if isinstance(field, dict) and "default" not in field
        ]
        schema: JsonObject = {
            "type": "object",
            "properties": fields,
            "required": needed,
            "additionalProperties": False,
        }
        tool = Tool(name=name, description=description, input_schema=Json.of(schema), profile=profile)

        async def run(given: JsonObject, context: RunContext) -> ToolOutput | str:
            return await run_in_thread(partial(function, given), f"the tool {name}")

        return FunctionTool(tool=tool, function=run, resource_key=self.key_of_call, named=self.workspace.named)

    def read(self) -> FunctionTool:
        """`read_file`"""

        def run(given: JsonObject, aborted: Aborted) -> ToolOutput | str:
            lines = given["lines"]
            return read_lines(
                self.workspace,
                str(given["path"]),
                _whole(given["first_line"]),
                None if lines is None else _whole(lines),
                self.most_bytes,
            )

        return self._made(
            "read_file",
            "Read a text file of the workspace, or see an image. Of a long file, read some lines after the others.",
            {
                "path": _PATH,
                "first_line": {"type": "integer", "description": "1 is the first", "minimum": 1, "default": 1},
                "lines": {
                    "type": ["integer", "null"],
                    "description": "how many; null: all",
                    "minimum": 1,
                    "default": None,
                },
            },
            run,
        )

    def write(self) -> FunctionTool:
        """`write_file`"""
        return self._made(
            "write_file",
            "Write a text file of the workspace, in place of what it held. Folders that are missing are made.",
            {"path": _PATH, "text": {"type": "string", "description": "all that the file shall hold"}},
            lambda given, _: self.workspace.write(str(given["path"]), str(given["text"]), make_folders=True),
            self._writes(EffectClass.IDEMPOTENT),
        )

    def edit(self) -> FunctionTool:
        """`edit_file`, which is not idempotent: a second run may find the old text in the new one."""
        return self._made(
            "edit_file",
            "Put a new text in the place of an old one in a file of the workspace. The old one has to stand there "
            "exactly so, and once, unless all shall be replaced.",
            {
                "path": _PATH,
                "old_text": {
                    "type": "string",
                    "description": "exactly as in the file, with all spaces",
                    "minLength": 1,
                },
                "new_text": {"type": "string"},
                "replace_all": {"type": "boolean", "default": False},
            },
            lambda given, _: edit(
                self.workspace,
                str(given["path"]),
                str(given["old_text"]),
                str(given["new_text"]),
                every=given["replace_all"] is True,
            ),
            self._writes(EffectClass.DANGEROUS),
        )

    def list(self) -> FunctionTool:
        """`list_files`"""
        return self._made(
            "list_files",
            "List what a folder of the workspace holds.",
            {"path": _FOLDER},
            lambda given, _: self.workspace.names(str(given["path"])),
            _SEARCHES,
        )

    def glob(self) -> FunctionTool:
        """`glob`"""
        return self._made(
            "glob",
            "Find files of the workspace by their path.",
            {
                "pattern": {"type": "string", "description": "such as **/*.py; * stays within a name", "minLength": 1},
                "path": _FOLDER,
            },
            lambda given, aborted: find_files(self.workspace, str(given["pattern"]), str(given["path"]), aborted),
            _SEARCHES,
        )

    def grep(self) -> FunctionTool:
        """`grep`, whose search is ended with the run."""
        made = self._made(
            "grep",
            "Find the lines of files of the workspace that match a regular expression of Python.",
            {
                "pattern": {"type": "string", "description": "is looked for in each line", "minLength": 1},
                "path": {**_FOLDER, "description": "a folder or a file, relative to the workspace"},
                "files": {"type": ["string", "null"], "description": "of which files, such as *.py", "default": None},
                "ignore_case": {"type": "boolean", "default": False},
            },
            lambda given, _: "",
            _SEARCHES,
        )

        async def run(given: JsonObject, context: RunContext) -> str:
            files = given["files"]
            search = LineSearch(
                pattern=str(given["pattern"]),
                folder=str(given["path"]),
                files=None if files is None else _anywhere(str(files)),
                ignore_case=given["ignore_case"] is True,
            )
            process = SearchProcess()
            return await run_in_thread(
                lambda aborted: find_lines(self.workspace, search, aborted, process),
                "the tool grep",
                on_abort=process.end,
            )

        return FunctionTool(tool=made.tool, function=run, resource_key=self.key_of_call, named=self.workspace.named)


def _whole(number: JsonValue) -> int:
    assert isinstance(number, int | float)  # the schema says so
    return int(number)


def _anywhere(pattern: str) -> str:
    """A pattern of one name is meant for the files of all folders."""
    return pattern if "/" in pattern else f"**/{pattern}"
