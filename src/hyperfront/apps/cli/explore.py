"""``hyperfront explore``: look at the front of a run, and pick a trade-off."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from hyperfront.apps.cli.arguments import DataFolder, Flag, OwnProblem, Target, TrainedRun, check_port, option
from hyperfront.apps.cli.opening import asks_for_options, own_problem
from hyperfront.apps.cli.output import console


def explore(
    run: TrainedRun,
    /,
    *,
    baselines: Annotated[tuple[Path, ...], option("FILE ...")] = (),
    static: Annotated[Path | None, option("FILE")] = None,
    open: Flag = False,
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8765,
    host: Annotated[str, tyro.conf.arg(metavar="NAME")] = "127.0.0.1",
    title: Annotated[str | None, option("TEXT")] = None,
    notes: Annotated[str | None, option("TEXT")] = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
) -> None:
    """Explore the front of a trained run on a local page.

    Drag the handle: losses, scores and predictions follow. Set limits, and the page finds the ray; pin points to
    compare them; download the model. The front is measured on validation data, more finely while the page is open, and
    stored in the run folder. Examples:
        hyperfront explore runs/demo
        hyperfront explore runs/mm --baselines results/mm-ls.json runs/other
        hyperfront explore runs/mm --static front.html

    Args:
        baselines: Fronts to compare with: result files, fronts as JSON, run folders, or points as CSV.
        static: Write one HTML file that can be mailed, with front and predictions sampled, and stop.
        open: Open the page in the browser.
        port: Port to listen at, or the next free one.
        title: Title of the page.
        notes: Introduction of the page; an empty line separates paragraphs.
        host: Address to listen at. Other than this machine itself, whoever knows the address can use it.
    """
    from hyperfront.apps.explorer import explore as open_run

    own = None if problem is None else own_problem(problem)
    with asks_for_options():
        exploration = open_run(
            run, own, target=target, baselines=baselines, data_dir=data_dir, title=title, notes=notes
        )
    if static is not None:
        with tqdm(desc="measuring the front", unit="ray", disable=None) as bar:

            def progress(done: int, of: int) -> None:
                bar.total = of
                bar.update(done - bar.n)

            exploration.save(static, progress=progress)
        console.print(f"wrote {static} ({static.stat().st_size / 2**20:.1f} MiB): it needs no server and no network")
        return
    server = exploration.serve(host=host, port=check_port(port))
    console.print(f"[bold]{server.url}[/bold]  (Ctrl-C stops)", soft_wrap=True)
    if open:
        webbrowser.open(server.url)
    try:
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        exploration.close()
    console.print("stopped")
