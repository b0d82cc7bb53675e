"""The commands of the command line, carried out; and how every failure is told without a traceback."""

import argparse
import os
from collections.abc import Sequence

from loopkernel.data.errors import LawBroken

from loopkernel_adapters.cli.argument_values import runs_shown
from loopkernel_adapters.cli.arguments import options_of, parser
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain, described, told_in_words
from loopkernel_adapters.cli.screen import Screen, terminal
from loopkernel_adapters.cli.user_settings import with_settings

# Each command imports what it needs when it is carried out: the help, and the list of runs, need next to nothing.


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """As `main`; it raises KeyboardInterrupt and nothing else."""
    try:
        given = parser().parse_args(arguments)
    except SystemExit as error:  # argparse has said what is wrong, or has shown its help
        return error.code if isinstance(error.code, int) else ExitStatus.UNUSABLE
    except OSError as error:
        complain(f"the help cannot be written: {error.strerror}; send it elsewhere")
        return ExitStatus.UNUSABLE
    screen = terminal()
    try:
        with told_in_words():
            status = _carry_out(with_settings(given), screen)
    except Unusable as error:
        return _failed(str(error), given, screen)
    except OSError as error:
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", given, screen)
    except LawBroken as error:
        return _failed(str(error), given, screen)
    except Exception as error:
        return _failed(f"something that nobody foresaw: {described(error)}; please report this", given, screen)
    if screen.failure is not None:
        return _failed(f"the output cannot be written: {screen.failure.strerror}; send it elsewhere", given, screen)
    return status


def _carry_out(given: argparse.Namespace, screen: Screen) -> ExitStatus:
    _demand_folder()
    match given.command:
        case "run":
            from loopkernel_adapters.cli.run import run

            return run(given.task, options_of(given), screen)
        case "chat":
            from loopkernel_adapters.cli.chat import chat

            return chat(options_of(given), screen)
        case "resume":
            from loopkernel_adapters.cli.resume import resume

            return resume(given.run, options_of(given), screen)
        case "acp" | "serve" | "mcp" | "worker" | "send":
            return _serve(given, screen)
        case "runs":
            from loopkernel_adapters.cli.listing import list_runs

            return list_runs(given.store, screen, as_json=given.json, most=runs_shown(given))
        case "approvals" if given.drop is not None:
            from loopkernel_adapters.cli.approvals import drop_approval

            return drop_approval(given.run, given.store, given.drop, screen, as_json=given.json)
        case "approvals":
            from loopkernel_adapters.cli.approvals import list_approvals

            return list_approvals(given.run, given.store, screen, as_json=given.json)
        case "log":
            if given.steps:
                from loopkernel_adapters.cli.why import show_steps

                return show_steps(given.run, given.store, screen)
            from loopkernel_adapters.cli.replay import show_log

            return show_log(given.run, given.store, screen, as_json=given.json)
        case "why" | "policy" | "doctor" | "completion":
            return _tell(given, screen)
        case "view":
            from loopkernel_adapters.cli.view import view

            return view(given.run, given.store, given.policy, given.html, screen, serves=given.serve)
        case "conform":
            from loopkernel_adapters.cli.conform import conform

            return conform(given, screen)
        case "replay" | "whatif" | "diagnose" | "repair" | "continue" | "fork":
            return _carry_out_on_recording(given, screen)
        case _:
            from loopkernel_adapters.cli.demo import demo

            return demo(screen)


def _tell(given: argparse.Namespace, screen: Screen) -> ExitStatus:
    """What tells about runs, policies and this machine."""
    match given.command:
        case "why":
            from loopkernel_adapters.cli.why import why

            return why(given.run, given.step, given.store, screen)
        case "policy":
            from loopkernel_adapters.cli.policies import check_policy, compare_policies, show_policy

            if given.does == "diff":
                return compare_policies(given.policy, given.other, screen)
            return (show_policy if given.does == "show" else check_policy)(given.policy, screen)
        case "completion":
            from loopkernel_adapters.cli.completion import tell_completion

            return tell_completion(parser(), given.shell, screen)
        case _:
            from loopkernel_adapters.cli.doctor import examine

            return examine(screen)


def _demand_folder() -> None:
    """Raises Unusable where the current folder is gone, by which each path is meant."""
    try:
        os.getcwd()
    except OSError as error:
        raise Unusable(
            f"the folder that you are in cannot be found ({error.strerror}); go to one that is there, and try again"
        ) from error


def _serve(given: argparse.Namespace, screen: Screen) -> ExitStatus:
    """What serves others: editors, programs, and the runs of a database."""
    match given.command:
        case "acp":
            from loopkernel_adapters.cli.acp import serve_editor

            return serve_editor(options_of(given))
        case "serve":
            from loopkernel_adapters.cli.serve import serve

            return serve(options_of(given), given.port, given.origin, screen)
        case "mcp":
            from loopkernel_adapters.cli.mcp_server import serve_mcp

            return serve_mcp(options_of(given))
        case "worker":
            from loopkernel_adapters.cli.fleet import work

            return work(options_of(given), screen)
        case _:
            from loopkernel_adapters.cli.fleet import inputs_of, send

            if given.waiting or given.call is not None:
                from loopkernel_adapters.cli.fleet_calls import answer_call, list_waiting

                if given.call is None:
                    return list_waiting(given.run, given.store, screen)
                return answer_call(given.run, given.call, given.words, given.store, screen)
            return send(given.run, inputs_of(given.words, cancel=given.cancel), given.store, screen)


def _carry_out_on_recording(given: argparse.Namespace, screen: Screen) -> ExitStatus:
    """What is done with logs and with recordings of other agents."""
    match given.command:
        case "replay":
            from loopkernel_adapters.cli.recordings import is_one_run, replay_recordings

            shows_run = not given.json and given.policy is None
            if shows_run and is_one_run(given.log, given.store):
                from loopkernel_adapters.cli.replay import replay

                return replay(given.log[0], given.store, screen)
            return replay_recordings(
                given.log, given.store, given.policy, screen, as_json=given.json, all_findings=given.findings
            )
        case "whatif":
            from loopkernel_adapters.cli.what_if_table import whatif

            return whatif(given.log, given.store, given.policy, given.html, screen, as_json=given.json)
        case "diagnose":
            from loopkernel_adapters.cli.diagnosis import diagnose

            return diagnose(given.recording, screen, as_json=given.json, shows_all=given.all)
        case "repair":
            from loopkernel_adapters.cli.repair import repair_recording

            return repair_recording(
                given.recording, given.out, screen, as_log=given.as_log, conversation=given.conversation
            )
        case "continue":
            from loopkernel_adapters.cli.repair import continue_recording

            return continue_recording(given.recording, given.conversation, options_of(given), screen)
        case _:
            from loopkernel_adapters.cli.fork import fork_run

            return fork_run(given.log, given.at, given.store, given.out, screen)


def _failed(message: str, given: argparse.Namespace, screen: Screen) -> int:
    """Tell it, also as the last line to a program that reads the output."""
    if getattr(given, "json", False) and given.command in ("run", "chat", "resume", "continue"):
        from loopkernel_adapters.cli.json_lines import tell_failure

        tell_failure(message, screen)
    screen.end_stream()  # so that the message has a line of its own
    complain(message)
    return ExitStatus.UNUSABLE
