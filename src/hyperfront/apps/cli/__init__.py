"""The command line: each command is a thin call of public functions."""

from __future__ import annotations

import difflib
import inspect
import io
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hyperfront.errors import HyperfrontError

if TYPE_CHECKING:
    from tyro.extras import SubcommandApp

DESCRIPTION = """One model, every trade-off: train a model of a whole Pareto front, then pick any point of it.

Start with `hyperfront demo`. `hyperfront COMMAND --help` explains a command."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the command ``hyperfront``."""
    with guarded():
        import tyro

        from hyperfront import __version__
        from hyperfront.apps.cli import data

        given, every = sys.argv[1:] if arguments is None else arguments, (tyro.conf.FlagCreatePairsOff,)
        functions = _functions()
        if given == ["--version"]:
            print(f"hyperfront {__version__}")  # noqa: T201
        elif given[:1] == ["data"]:
            data.data.cli(prog="hyperfront data", description=data.DESCRIPTION, args=given[1:], config=every)
        elif given and given[0] in functions:  # alone, so that help and mistakes are about this command only
            function, prog = _function(given, functions), f"hyperfront {given[0]}"
            tyro.cli(function, prog=prog, description=_wrapped(function), args=given[1:], config=every)
        else:
            _refuse_unknown(given, [*functions, "data"])
            _overview(functions).cli(prog="hyperfront", description=DESCRIPTION, args=given or ["--help"], config=every)


@contextmanager
def guarded() -> Iterator[None]:
    """Turn errors and Ctrl-C within the ``with`` block into messages without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without some letters gets others
        sys.stdout.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    try:
        yield
    except HyperfrontError as error:
        _fail(str(error), code=2)
    except KeyboardInterrupt as stop:
        _fail(str(stop) or "stopped", code=getattr(stop, "code", 130))  # 143 after SIGTERM, 129 after SIGHUP
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python can flush at its end
        sys.exit(1)
    except OSError as error:  # a folder without rights, a full disk
        _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error), code=2)


def _functions() -> dict[str, Callable[..., None]]:
    """The commands by name."""
    from hyperfront.apps.cli.compare import compare
    from hyperfront.apps.cli.demo import demo
    from hyperfront.apps.cli.doctor import doctor
    from hyperfront.apps.cli.evaluate import evaluate
    from hyperfront.apps.cli.explore import explore
    from hyperfront.apps.cli.export import export
    from hyperfront.apps.cli.predict import predict
    from hyperfront.apps.cli.problems import problems
    from hyperfront.apps.cli.report import report
    from hyperfront.apps.cli.results import results
    from hyperfront.apps.cli.serve import serve
    from hyperfront.apps.cli.train import train
    from hyperfront.apps.cli.tune import tune

    return {
        "demo": demo,
        "problems": problems,
        "train": train,
        "evaluate": evaluate,
        "compare": compare,
        "tune": tune,
        "explore": explore,
        "export": export,
        "serve": serve,
        "predict": predict,
        "report": report,
        "results": results,
        "doctor": doctor,
    }


def _function(given: list[str], functions: Mapping[str, Callable[..., None]]) -> Callable[..., None]:
    """Find the command for these words; training on a table has its own options."""
    from hyperfront.apps.cli.train_table import train_table
    from hyperfront.tabular.reading import is_table

    return train_table if given[0] == "train" and any(map(is_table, given[1:])) else functions[given[0]]


def _wrapped(function: Callable[..., None]) -> str:
    """The function's docstring up to its arguments, in lines of the terminal's width; tyro would not wrap them.

    The space at the start of a line keeps tyro from joining it with the line before.
    """
    text = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:")[0]
    fill = textwrap.TextWrapper(shutil.get_terminal_size().columns, initial_indent=" ", subsequent_indent=" ").fill
    paragraphs = text.replace("\n    ", "\n\n    ").split("\n\n")  # each example is a paragraph
    return "\n".join(part if part.startswith(" ") else fill(part) for part in paragraphs)


def _refuse_unknown(given: list[str], commands: list[str]) -> None:
    if given and not given[0].startswith("-"):
        near = difflib.get_close_matches(given[0], commands, n=1, cutoff=0.6)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        _fail(f"unknown command {given[0]!r}.{hint} There are: {', '.join(commands)}.", code=2)


def _overview(functions: Mapping[str, Callable[..., None]]) -> SubcommandApp:
    """List all commands, each with the first line of its docstring."""
    from tyro.extras import SubcommandApp

    from hyperfront.apps.cli import data

    app = SubcommandApp()
    for name, function in functions.items():
        app.command(name=name, help=(function.__doc__ or "").partition("\n")[0])(function)
    app.command(data.data, name="data", help=data.DESCRIPTION)
    return app


def _fail(message: str, *, code: int) -> None:
    print(f"hyperfront: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"hyperfront: note: {message}", file=sys.stderr)  # noqa: T201
