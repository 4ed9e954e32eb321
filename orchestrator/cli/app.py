"""All commands of `orch`. Their bodies import what they need, so that `--help` stays fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="orch",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run GPU experiments on a remote host and bring home evidence you can trust.",
)
hosts_app = typer.Typer(no_args_is_help=True, help="The hosts you can run on.")
source_app = typer.Typer(no_args_is_help=True, help="The exact trees that were run.")
app.add_typer(hosts_app, name="hosts")
app.add_typer(source_app, name="source")

Experiment = Annotated[Path, typer.Argument(help="The experiment file.", show_default=False)]
HostOption = Annotated[str | None, typer.Option("--host", help="A name in hosts.yaml, or `local`.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run id, its beginning, or `latest`.")
]
_SIDE = "A run, its beginning, `latest`, a bundle.zip, a directory, a file, or PATH@REV."
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines instead of a live table.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines, for programs.")]
Patience = Annotated[
    str, typer.Option(help="How long a lost link is tried again before giving up.")
]


@app.command()
def run(
    experiment: Experiment,
    host: HostOption = None,
    plain: Plain = False,
    json: Json = False,
    no_preflight: Annotated[
        bool, typer.Option("--no-preflight", help="Skip the linter; the run records that.")
    ] = False,
    patience: Patience = "10m",
    note: Annotated[
        str, typer.Option("--note", "-m", help="What this round tries; `orch trend` shows it.")
    ] = "",
) -> None:
    """Run an experiment on a host, bring everything home, and compare it with its ledger.

    Exit codes: 0 all passed and all blockers hit; 1 a step failed or an entry missed; 2 the input
    is wrong; 3 not measured or not comparable; 4 preflight refused; 5 host unreachable (the run may
    go on); 6 cancelled; 130 detached.
    """
    from orchestrator.cli import running

    raise typer.Exit(running.run(experiment, host, plain, json, not no_preflight, patience, note))


@app.command("preflight")
def preflight_command(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders.")] = None,
    select: Annotated[str, typer.Option(help="Only these rules, codes or groups.")] = "",
    ignore: Annotated[str, typer.Option(help="Leave these out.")] = "",
    profile: Annotated[str, typer.Option(help="regular, pedantic or auditor.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="Apply fixes that need a review.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what fixes would change.")] = False,
    output_format: Annotated[
        str, typer.Option(help="full, concise, json, sarif or github.")
    ] = "full",
    explain: Annotated[str, typer.Option(help="Print the page of a rule.")] = "",
) -> None:
    """Find the mistakes that waste a GPU run, before the run."""
    from orchestrator.cli import preflight

    options = {
        "--select": select,
        "--ignore": ignore,
        "--profile": profile,
        "--output-format": output_format,
        "--explain": explain,
    }
    flags = {"--strict": strict, "--fix": fix, "--unsafe-fixes": unsafe_fixes, "--diff": diff}
    raise typer.Exit(preflight.run(paths or [], options, flags))


@app.command()
def plan(
    experiment: Experiment,
    json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
) -> None:
    """Show the expanded plan and its worst-case wall time, without touching a host."""
    from orchestrator.cli import planning

    planning.plan(experiment, json)


@app.command()
def schema(
    kind: Annotated[
        str | None, typer.Argument(help="experiment, hosts or ledger; all without one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write files into this directory.")
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of file, for editors."""
    from orchestrator.cli import planning

    planning.schema(kind, output)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The project's top directory.")] = Path(),
) -> None:
    """Write a hosts.yaml, a first experiment with its ledger, and the .gitattributes lines."""
    from orchestrator.cli import starting

    starting.init(folder)


@app.command()
def ls(
    json: Json = False,
    host: Annotated[
        str | None, typer.Option("--host", help="List what lies on a host instead.")
    ] = None,
) -> None:
    """List the runs that are here, or those that lie on a host."""
    from orchestrator.cli import looking

    looking.ls(json, host)


@app.command()
def show(run_name: RunName = "latest", json: Json = False) -> None:
    """Show a run again: its ledger, its conditions, what to do next."""
    from orchestrator.cli import looking

    raise typer.Exit(looking.show(run_name, json))


@app.command()
def report(
    run_name: RunName = "latest",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--md", help="Markdown for a pull request instead of a page.")
    ] = False,
) -> None:
    """Write a run as one page that opens from disk, without a network."""
    from orchestrator.cli import reporting

    reporting.report(run_name, output, markdown)


@app.command()
def review(
    run_name: RunName = "latest",
    against: Annotated[str, typer.Option(help="`ledger`, or a run to compare with.")] = "ledger",
    tty: Annotated[bool, typer.Option("--tty", help="Ask in the terminal, no page.")] = False,
    port: Annotated[int, typer.Option(help="A port of 127.0.0.1; 0 takes a free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open nothing.")
    ] = False,
) -> None:
    """Accept or reject every difference, with a reason; drafts the next ledger.

    Exit codes: 0 everything was accepted; 1 something was rejected; 3 something is still open.
    """
    from orchestrator.cli import reviewing

    raise typer.Exit(reviewing.review(run_name, against, port, tty, not no_browser))


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same; A is the reference.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="1 when something differs, 3 when it is not known.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only artifacts whose path fits this glob.")] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Counts and names, no places.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="No colours, long lines.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document, for programs.")] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit XML to this file, too.", show_default=False)
    ] = None,
) -> None:
    """Compare two runs, bundles, directories or files: conditions, code, metrics, artifacts.

    What may differ is declared under `compare:` in the experiment. Exit codes: 0, whatever was
    found; with --exit-code 0 nothing differs, 1 something does, 3 something could not be read or
    compared; 2 no such side; 3 a side is damaged or not home.
    """
    from orchestrator.cli import diffing

    raise typer.Exit(diffing.diff(a, b, exit_code, json, junit, only, stat, plain))


@app.command()
def trend(
    metric: Annotated[str, typer.Argument(help="A metric, as the steps record it.")],
    where: Annotated[
        list[str] | None, typer.Option("--where", help="Only these points: axis=value.")
    ] = None,
    experiment: Annotated[str, typer.Option(help="Only rounds of this experiment.")] = "",
    json: Json = False,
) -> None:
    """Show a metric over the rounds of the project, with what changed between them."""
    from orchestrator.cli import reporting

    reporting.trend(metric, where or [], experiment, json)


@app.command()
def logs(
    run_name: RunName,
    job: Annotated[
        str | None, typer.Argument(help="A job's id, such as `sweep[experts=64]`.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
) -> None:
    """Print a job's log: from here when the run is home, from the host while it is not."""
    from orchestrator.cli import looking

    looking.logs(run_name, job, follow)


@app.command()
def attach(
    run_name: RunName,
    host: HostOption = None,
    plain: Plain = False,
    json: Json = False,
    patience: Patience = "10m",
) -> None:
    """Follow a run again, whatever happened to the laptop, and bring it home when it ends."""
    from orchestrator.cli import running

    raise typer.Exit(running.attach(run_name, host, plain, json, patience))


@app.command()
def fetch(run_name: RunName, host: HostOption = None) -> None:
    """Bring home a run that has ended; says so when it has not."""
    from orchestrator.cli import running

    raise typer.Exit(running.fetch(run_name, host))


@app.command()
def cancel(run_name: RunName, host: HostOption = None) -> None:
    """Stop a run on its host; what it produced can still be fetched."""
    from orchestrator.cli import running

    running.cancel(run_name, host)


@app.command()
def verify(
    target: Annotated[
        str, typer.Argument(help="A run, or the path of a bundle.zip or a run directory.")
    ],
) -> None:
    """Check a run or a bundle again, offline: every file, every hash, the ledger and the tree."""
    from orchestrator.cli import looking

    looking.verify(target)


@app.command()
def doctor(
    host: Annotated[str, typer.Argument(help="A name in hosts.yaml, or `local`.")] = "local",
) -> None:
    """Look at a host the way a run will, and say what would get in its way."""
    from orchestrator.cli import hosting

    raise typer.Exit(hosting.doctor(host))


@app.command()
def gc(
    host: HostOption = None,
    older_than: Annotated[str, typer.Option(help="Remove runs older than this.")] = "30d",
    keep_bytes: Annotated[
        str, typer.Option(help="Most bytes the stored file contents may take on a host.")
    ] = "20GB",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
    ] = False,
    unfetched: Annotated[
        bool,
        typer.Option("--unfetched", help="On a host: those not, or not wholly, home, too."),
    ] = False,
) -> None:
    """Remove old runs: here, or with `--host` on a host; never one that runs or is not yet home."""
    from orchestrator.cli import hosting

    hosting.gc(host, older_than, keep_bytes, dry_run, unfetched)


@hosts_app.command("list")
def hosts_list() -> None:
    """List the hosts of the hosts.yaml files."""
    from orchestrator.cli import hosting

    hosting.list_hosts()


@hosts_app.command("close")
def hosts_close(
    name: Annotated[str, typer.Argument(help="A name in hosts.yaml.")],
) -> None:
    """Close the connection that `keep_open` holds."""
    from orchestrator.cli import hosting

    hosting.close(name)


@hosts_app.command("trust")
def hosts_trust(
    name: Annotated[str, typer.Argument(help="A name in hosts.yaml.")],
    fingerprint: Annotated[
        str | None,
        typer.Option(help="The fingerprint you were told; without it you are asked."),
    ] = None,
) -> None:
    """Show the key a host presents, and put it into known_hosts once you confirm it."""
    from orchestrator.cli import hosting

    hosting.trust(name, fingerprint)


@source_app.command("diff")
def source_diff(
    old: Annotated[str, typer.Argument(help="A run, or any git revision.")],
    new: Annotated[str, typer.Argument(help="A run, or any git revision.")],
    stat: Annotated[bool, typer.Option("--stat", help="Only the names and counts.")] = False,
) -> None:
    """Show what changed between the trees of two runs."""
    from orchestrator.cli import sourcing

    sourcing.diff(old, new, stat)


@source_app.command("restore")
def source_restore(
    run_name: RunName,
    folder: Annotated[Path, typer.Argument(help="A new or an empty directory.")],
) -> None:
    """Write the exact files of a run into a directory."""
    from orchestrator.cli import sourcing

    sourcing.restore(run_name, folder)


@source_app.command("unsent")
def source_unsent() -> None:
    """List what lies in the working copy and does not travel."""
    from orchestrator.cli import sourcing

    sourcing.unsent()
