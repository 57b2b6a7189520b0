"""What `domo simulate --compare` does: several methods and seeds; a table, numbers and a plot."""

import time
from contextlib import nullcontext
from pathlib import Path

from domo.commands import compare, interrupted
from domo.commands.plot import plot
from domo.commands.simulate import progress, shown
from domo.errors import ConfigError, TransportError
from domo.ops.console import console, say
from domo.ops.words import counted
from domo.simulating.state import ModelRecord
from domo.storage.home import make_results_folder
from domo.sweeps.cells import Setting
from domo.sweeps.engines import elsewhere


def run_comparison(
    setting: Setting,
    methods: tuple[str, ...],
    seeds: tuple[int, ...],
    jobs: int,
    out: Path,
    again: str = "",
    resume: bool = False,
    on: str | None = None,
) -> compare.Comparison:
    """Several methods and seeds; leaves every number, a table and a plot in `out`.

    Args:
        setting: What the runs share.
        methods: In the order of the table.
        seeds: One run of each method for each.
        jobs: Processes of this machine.
        out: Folder; made if need be.
        again: The command that goes on, should it be interrupted.
        resume: Go on with what was interrupted in `out`.
        on: Where runs are computed instead: see `domo.sweeps.engines.elsewhere`.
    """
    config = setting.config
    say(
        f"{counted(len(methods), 'method')} x {counted(len(seeds), 'seed')} on {config.task}: "
        f"{counted(config.expected_silos, 'silo')}, similarity {100 * config.similarity:g} %, "
        f"{counted(config.num_rounds, 'round')}"
    )
    make_results_folder(out)
    began = time.perf_counter()
    place = out / interrupted.PART
    done = interrupted.load_part(place, config, setting.how.mode) if resume else {}
    executor = nullcontext() if on is None else elsewhere(on, out / "jobs", config.threads)
    with progress() as bar, executor as workers:
        runs = bar.add_task("runs", total=len(methods) * len(seeds))

        def show(method: str, seed: int, metric: str, value: float) -> None:
            say(f"seed {seed}  {method:12} {metric} {shown(metric, value)}")
            bar.advance(runs)
            bar.refresh()

        def keep(method: str, seed: int, history: list[ModelRecord]) -> None:
            done[method, seed] = history
            interrupted.save_part(place, config, done, setting.how.mode)

        try:
            result = compare.compare(
                setting,
                methods,
                seeds,
                jobs=jobs,
                executor=workers,
                on_done=show,
                done=dict(done),
                on_run=keep,
            )
        except (KeyboardInterrupt, SystemExit, TransportError):
            num = len(methods) * len(seeds)
            say(f"stopped: {len(done)} of {counted(num, 'run')} done, kept in {out}")
            if done:
                say(f"next:    {again}")
            raise
    place.unlink(missing_ok=True)
    (out / "comparison.json").write_text(compare.to_json(result), encoding="utf-8")
    (out / "comparison.md").write_text(compare.markdown(result), encoding="utf-8")
    console.print(compare.rich_table(result))
    say(f"time:    {time.perf_counter() - began:.1f} s")
    say(f"numbers: {out / 'comparison.json'}\ntable:   {out / 'comparison.md'}")
    try:
        plot(result, out / "comparison.png")
        say(f"plot:    {out / 'comparison.png'}")
    except ConfigError as error:
        say(f"no plot: {error}", style="yellow")
    return result
