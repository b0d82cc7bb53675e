"""Holds a refactoring: the working tree does at every step of a large corpus what a base commit does, to the byte.

Usage: python -m scripts.same [--base COMMIT | --compiled] [--only PART ...] [--case NAME]. The base is the last commit;
or the one before it, where kernel/ is as committed. With --compiled it is the sources of this tree, and what is held is
the compiled kernel of the environment that runs this (`make fast` makes one). The base makes the corpus, of its own
scenarios, golden logs, simulated worlds, walks, scopes of the explorer and recordings. Then both trees fold it, each by
its own scripts/sameness, which names the modules of its own kernel; and the state, the effects and the requests of each
step are compared.

Exits 1 after a difference, which it shows; 2 where nothing could be compared.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any

from attrs import Factory, frozen

from scripts.sameness.corpus import FORMAT, PARTS, CorpusCase, read_cases, write_cases
from scripts.sameness.telling import Difference, Versions, told

ROOT = Path(__file__).resolve().parent.parent
TAKEN = ("kernel", "adapters", "scripts", "tests", "specs")  # of the base
RAISED = "raised"  # how the digest of a step begins that has raised


class NotCompared(Exception):
    """Why nothing could be said."""


@frozen
class Tree:
    """One of the two, and what it is called. Its kernel is that of its sources, or the one that is installed."""

    name: str
    root: Path
    is_installed: bool = False

    def run(self, program: str, *arguments: object) -> None:
        """Run a program of the tree, on its own sources. Raises NotCompared."""
        sources = () if self.is_installed else (self.root / "kernel", self.root / "adapters")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                map(str, (*sources, self.root))
            ),  # these come before what .venv has installed
            "PYTHONHASHSEED": "0",
            "HYPOTHESIS_PROFILE": "quick",
        }
        command = [sys.executable, "-P", "-m", f"scripts.sameness.{program}", *map(str, arguments)]
        ended = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        if ended.returncode != 0:
            last = "\n  ".join(ended.stderr.splitlines()[-4:])
            raise NotCompared(f"scripts/sameness/{program}.py of {self.name} has failed:\n  {last}")


@frozen
class Fold:
    """What a tree makes of a corpus: its versions, and the name and the outcomes of each case."""

    versions: Versions
    cases: list[tuple[str, list[Any]]]  # Any: digests, or with --whole the texts


def fold_of(tree: Tree, corpus: Path, output: Path, *options: str) -> Fold:
    """Fold it by the tree's own kernel. Raises NotCompared."""
    tree.run("folding", corpus, output, *options)
    header, *cases = map(json.loads, output.read_text(encoding="ascii").splitlines())
    if header["format"] != FORMAT:
        raise NotCompared(
            f"{tree.name} writes what is not read here: compare with a commit that has the same make same"
        )
    own = Path(sys.prefix) if tree.is_installed else tree.root / "kernel"
    if not Path(header["kernel"]).is_relative_to(own):
        raise NotCompared(f"{tree.name} was to be folded by its own kernel, and was by {header['kernel']}")
    return Fold(header["versions"], cases)


@frozen
class Compared:
    """What was compared, and the first difference as text, if there is one."""

    part: str
    cases: int = 0
    steps: int = 0
    difference: str | None = None


@frozen
class Pair:
    """The two trees, a folder for what they write, and the case to look at alone, if any."""

    base: Tree
    here: Tree
    folder: Path
    case: str | None
    repeat: str
    stopped: Event = Factory(Event)  # set when no more needs to be compared

    def compare(self, part: str, share: int) -> Compared:
        """A share of a part of the corpus: made by the base, folded by both. Raises NotCompared."""
        corpus = self.folder / f"{part}-{share}"
        self.base.run("gathering", part, share, PARTS[part], corpus)
        if self.stopped.is_set():
            return Compared(part)
        if self.case is not None:
            write_cases(corpus, [case for case in read_cases(corpus) if case.name == self.case])
        base, here = self._folds(corpus)
        steps = 0
        for number, ((name, before), (_, after)) in enumerate(zip(base.cases, here.cases, strict=True)):
            steps += len(before) - 1
            place = next(
                (place for place, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]), None
            )
            if place is not None:
                return Compared(part, number + 1, steps, self._shown(part, corpus, number, place))
            if any(digest.startswith(RAISED) for digest in before):
                raise NotCompared(f"{self.base.name} raises in {name}: there is nothing to compare with")
        corpus.unlink()
        return Compared(part, len(base.cases), steps)

    def _folds(self, corpus: Path, *options: str) -> tuple[Fold, Fold]:
        base = fold_of(self.base, corpus, corpus.with_suffix(".base"), *options)
        return base, fold_of(self.here, corpus, corpus.with_suffix(".here"), *options)

    def _shown(self, part: str, corpus: Path, number: int, place: int) -> str:
        """The case is folded again, up to the step, and both texts are laid beside each other."""
        case = list(read_cases(corpus))[number]
        alone = corpus.with_suffix(".case")
        write_cases(alone, [CorpusCase(case.name, case.start, case.steps[:place])])
        base, here = self._folds(alone, "--whole")
        (_, before), (_, after) = base.cases[0], here.cases[0]
        record = case.steps[place - 1].record if place else None
        difference = Difference(case=case.name, step=place, record=record, base=before[place], here=after[place])
        only, named = ("--only ", "--case ") if self.here.is_installed else ("ONLY=", "CASE=")
        repeat = f"{self.repeat} {only}{part} {named}{shlex.quote(case.name)}"
        return told(difference, base.versions, here.versions, repeat)


def main(words: Sequence[str]) -> int:
    """Compare, print what was seen; the exit status."""
    arguments = parsed(words)
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="loopkernel-same-") as name:
            pair = pair_of(arguments, Path(name).resolve())
            if pair is None:
                print("nothing in kernel/ differs, so nothing was folded")
                return 0
            found = compared(pair, arguments.only or list(PARTS))
    except NotCompared as error:
        print(f"not compared: {error}")
        return 2
    if any(each.difference is not None for each in found):
        return 1
    for part in dict.fromkeys(each.part for each in found):
        print(f"  {part}: {sum_of(each for each in found if each.part == part)}")
    if not any(each.cases for each in found):
        print("not compared: there is no such case")
        return 2
    print(f"the same: {sum_of(found)}, {time.monotonic() - begun:.0f} s")
    return 0


def pair_of(arguments: argparse.Namespace, folder: Path) -> Pair | None:
    """What is compared; None where the kernel is the same anyway. Raises NotCompared."""
    if arguments.compiled:
        print("the compiled kernel beside the sources of the working tree", flush=True)
        here = Tree("the compiled kernel", ROOT, is_installed=True)
        repeat = f"{sys.executable} -m scripts.same --compiled"
        return Pair(Tree("the sources", ROOT), here, folder, arguments.case, repeat)
    base = base_commit(arguments.base)
    print(f"the working tree beside {git('log', '-1', '--format=%h (%s)', base)}", flush=True)
    if not git("status", "--porcelain", "--", "kernel") and not git("diff", "--stat", base, "--", "kernel"):
        return None
    taken = Tree(f"the base {git('rev-parse', '--short', base)}", folder / "base")
    extract(base, taken.root)
    return Pair(taken, Tree("the working tree", ROOT), folder, arguments.case, f"make same BASE={base}")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description="Compare every step of a large corpus with a base commit.")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--base", help="the commit (else the last one, or the one before it where that is the same)")
    base.add_argument("--compiled", action="store_true", help="hold the compiled kernel of this environment")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts of the corpus")
    parser.add_argument("--case", help="the case of this name alone")
    return parser.parse_args(words)


def base_commit(named: str | None) -> str:
    """The commit to compare with, by its whole name. Raises NotCompared."""
    is_changed = bool(git("status", "--porcelain", "--", "kernel"))
    return git("rev-parse", "--verify", f"{named or ('HEAD' if is_changed else 'HEAD~1')}^{{commit}}")


def git(*words: str) -> str:
    """What git says. Raises NotCompared."""
    ended = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if ended.returncode != 0:
        raise NotCompared(f"git {' '.join(words)}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def extract(commit: str, folder: Path) -> None:
    """The files of the commit. Raises NotCompared."""
    archive = folder.with_suffix(".zip")
    git("archive", f"--output={archive}", commit, *TAKEN)
    with zipfile.ZipFile(archive) as files:
        files.extractall(folder)
    if not (folder / "scripts" / "sameness").is_dir():
        raise NotCompared(f"{commit} is from before make same: compare with a later commit")


def compared(pair: Pair, parts: Sequence[str]) -> list[Compared]:
    """All of it, some shares at once; after a difference no further share is begun. Raises NotCompared."""
    shares = [(part, share) for part in parts for share in range(PARTS[part])]
    found: list[Compared] = []
    with ThreadPoolExecutor(max(1, int(os.environ.get("WORKERS", "2")))) as threads:
        under_way = [threads.submit(pair.compare, part, share) for part, share in shares]
        try:
            for ended in as_completed(under_way):
                found.append(ended.result())
                if found[-1].difference is not None:
                    print(f"NOT THE SAME. The first difference that was seen:\n{found[-1].difference}", flush=True)
                    break
        finally:
            pair.stopped.set()
            threads.shutdown(wait=True, cancel_futures=True)
    return found


def sum_of(found: Iterable[Compared]) -> str:
    """In a few words."""
    cases, steps = (sum(each) for each in zip(*((one.cases, one.steps) for one in found), strict=True))
    return f"{cases:,} cases, {steps:,} steps"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
