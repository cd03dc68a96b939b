"""`python -m netarium_papers PAPER [FIGURE …]`, which `netarium reproduce` starts."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

import netarium as nt

from ._figure import Figure, Paper, command, papers
from ._results import Results, known
from ._run import CLOCKS, MODELS
from ._stage import Options, PaperError

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="netarium reproduce",
        description="Makes figures of papers, and compares them with what the papers print.",
        epilog="examples: `netarium reproduce --list`, "
        "`netarium reproduce splaynet 3.5 --clock virtual`",
    )
    add = found.add_argument
    add("paper", nargs="?", metavar="PAPER", help="a paper of --list")
    add("figures", nargs="*", metavar="FIGURE", help="its figures; default: all")
    add("--list", action="store_true", help="list papers and figures")
    add("--clock", choices=[*CLOCKS, "both"], help="default: both if this machine can run labs")
    add("--model", choices=[*MODELS, "both"], default="both", help="default: both")
    add("--cluster", metavar="MACHINES", help="machines for runs on the wall clock")
    add("--short", action="store_true", help="smaller sizes, which show that all works")
    add("--out", type=Path, metavar="DIR", help="folder of the results; default: reproduce-PAPER")
    add("--json", action="store_true", help="print a JSON object")
    add("--quiet", action="store_true", help="suppress progress and notes")
    add("--no-progress", action="store_true", help="do not show progress")
    return found


def note(text: str) -> None:
    print(text, file=sys.stderr)


def clocks(wanted: Optional[str]) -> tuple[str, ...]:
    """The clocks to run on: both if this machine can run labs."""
    if wanted == "virtual":
        return ("virtual",)
    done = subprocess.run([nt.binary(), "doctor", "--quick"], capture_output=True)
    if done.returncode == 0:
        return ("wall",) if wanted == "wall" else CLOCKS
    if wanted:
        raise PaperError(
            "this machine cannot run labs on the wall clock: `netarium doctor` shows what is "
            "missing; `--clock virtual` does not need it"
        )
    note("virtual clock only: this machine cannot run labs (`netarium doctor` shows why)")
    return ("virtual",)


def models(args: argparse.Namespace) -> tuple[str, ...]:
    if args.model != "both":
        return (args.model,)
    # Only collapsed labs can run on a cluster.
    return ("collapsed",) if args.cluster else MODELS


def described(paper: Paper) -> dict[str, Any]:
    keys = ("id", "title", "takes", "clocks")
    figures = [{key: getattr(figure, key) for key in keys} for figure in paper.figures]
    found = {"name": paper.name, "title": paper.title, "citation": paper.citation}
    return {**found, "figures": figures}


def list_papers(chosen: Sequence[Paper], as_json: bool) -> None:
    if as_json:
        listed = [described(paper) for paper in chosen]
        print(json.dumps({"schema": "netarium.papers/1", "papers": listed}))
        return
    for paper in chosen:
        print(f"{paper.name}  {paper.title}\n{paper.citation}")
        width = max(len(figure.id) for figure in paper.figures)
        for figure in paper.figures:
            print(f"  {figure.id:{width}}  {figure.title} ({figure.takes})")


def words(args: argparse.Namespace) -> list[str]:
    """The options of this command, for its repetition."""
    found: list[str] = []
    for name in ("clock", "model", "cluster", "out"):
        value = getattr(args, name)
        if value is not None and (name, value) != ("model", "both"):
            found += [f"--{name}", str(value)]
    return found + (["--short"] if args.short else [])


def make(paper: Paper, figures: Sequence[Figure], args: argparse.Namespace) -> int:
    """Makes figures one after the other; a failed one does not keep the others."""
    out = args.out or Path(f"reproduce-{paper.name}")
    options = Options(out, clocks(args.clock), models(args), args.cluster, args.short)
    if not args.figures:
        skipped = [figure.id for figure in figures if not figure.suits(options.clocks)]
        figures = [figure for figure in figures if figure.suits(options.clocks)]
        if skipped:
            note(f"skipped, because they need another clock: {', '.join(skipped)}")
    results, made, interrupted = Results(out, paper), [], False
    is_shown = sys.stderr.isatty() and not (args.no_progress or args.quiet)
    for figure in figures:

        def show(finished: int, total: int, name: str = figure.id) -> None:
            if is_shown:
                print(f"\r{name}: {finished} of {total} runs", end="\x1b[K", file=sys.stderr)

        repeat = command(paper.name, figure.id, words(args))
        try:
            result = figure.result(options, out / "runs" / figure.id, repeat, show)
        except KeyboardInterrupt:
            interrupted = True
            break
        finally:
            if is_shown:
                print("\r", end="\x1b[K", file=sys.stderr)
        results.add(result)
        made.append(result)
        if not args.json:
            print(result.text(), flush=True)
    if args.json:
        print(
            json.dumps(
                {
                    "schema": "netarium.reproduce/1",
                    "folder": str(out),
                    "interrupted": interrupted,
                    "figures": [
                        {k: v for k, v in result.to_json(out).items() if k != "plots"}
                        for result in made
                    ],
                }
            )
        )
    if not args.quiet:
        note(f"figures: {out / 'index.html'}" + ("; interrupted" if interrupted else ""))
    if interrupted:
        return INTERRUPTED
    return max((result.exit_code for result in made), default=0)


def main(
    argv: Optional[Sequence[str]] = None, own: Optional[tuple[Paper, Sequence[Figure]]] = None
) -> int:
    """The command; `own` are the figures of the file that was started, with its paper."""
    try:
        code = perform(argv, own)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, such as `head`, has ended: nothing must be written at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def perform(argv: Optional[Sequence[str]], own: Optional[tuple[Paper, Sequence[Figure]]]) -> int:
    arguments = parser()
    args = arguments.parse_args(argv)
    found = papers()
    try:
        if own:
            return make(own[0], own[1], args)
        if args.paper and args.paper not in found:
            raise PaperError(f"unknown paper `{args.paper}`; papers: {', '.join(found)}", 2)
        if args.list:
            list_papers([found[args.paper]] if args.paper else list(found.values()), args.json)
            return 0
        if not args.paper:
            arguments.error("the following argument is required: PAPER")
        return make(found[args.paper], known(found[args.paper], args.figures), args)
    except (PaperError, nt.NetariumError) as error:
        note(f"error: {error}")
        return getattr(error, "exit_code", None) or 4
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
