"""What the ready-made handlers say of themselves and their parameters, so that it is translated.

The texts come from nodes, as those of any handler; these are known, and are the same everywhere.
"""

from __future__ import annotations

from tickwheel_admin.console.frame.i18n import gettext

N_ = str  # marks message ids for extraction

READY_MADE_TEXTS = (
    N_("Run the job's script. Exit code 0: succeeded, 75: try again, 78: do not."),
    N_("Arguments of the script, each as it is: no shell reads them."),
    N_(
        "Variables of the environment. Those that decide which code runs, such as LD_PRELOAD "
        "and PATH, are refused."
    ),
    N_("Text for its standard input; empty: no input."),
    N_("The exit code that means: nothing to do. The run is then skipped."),
    N_("Seconds that it may take to end after a cancel or timeout (SIGTERM), before it is killed."),
    N_("Run a program of the machine. Exit code 0: succeeded, 75: try again, 78: do not."),
    N_("The program and its arguments, each as it is: no shell reads them."),
    N_(
        "Where it runs: a directory that the machine's owner allows; empty: a private one, "
        "removed at the end."
    ),
    N_("Call an HTTP server. The run succeeds if the answer is as expected."),
    N_("Address to call: https://example.com/path"),
    N_("HTTP method"),
    N_(
        "Headers to send, such as Authorization with Bearer ${secret.TOKEN}. Idempotency-Key "
        "is the id of the run unless it is given here"
    ),
    N_("Query parameters, added to those of the address"),
    N_("Text to send as it is. At most one of body, json and form"),
    N_("Value to send as JSON; null: none"),
    N_("Fields to send as a form (x-www-form-urlencoded)"),
    N_("User for basic authentication; empty: none"),
    N_("Password for it: ${secret.NAME}"),
    N_("Statuses that mean success: 200, 200-299 or 2xx"),
    N_("Values that the JSON of the response must have, by path, such as data.state"),
    N_("Text that the response must contain; empty: any"),
    N_("Text that the response must not contain; empty: any"),
    N_(
        "Statuses after which the run is tried again, after the time that the server asks "
        "for in Retry-After"
    ),
    N_("Seconds for the whole call"),
    N_("Which redirects are followed. To another host, headers and body are not sent again"),
    N_("What to keep of the response in the result of the run"),
    N_("Part of the JSON to keep, by path: data.id; empty: all"),
    N_("Write the beginning of the response to the log also after success"),
    N_("Execute SQL statements on a database that the machine knows by name."),
    N_(
        "Name of the connection on the machine that runs the job; its address and password "
        "are known only there"
    ),
    N_("One statement, with :name for values. Either this or statements"),
    N_("Several statements, executed in this order"),
    N_(
        "Values of :name in the statements. A list is for IN :name. :run_id, :attempt, "
        ":scheduled_at, :due_at, :interval_start, :interval_end, :shard_index and "
        ":shard_total are those of the run"
    ),
    N_(
        "All statements in one transaction, each in its own, or without one, which VACUUM "
        "and the like need"
    ),
    N_("Rows to read of each statement that returns some"),
    N_(
        "Where rows go: those of the last statement into the result of the run, all as CSV "
        "into its log, or nowhere"
    ),
    N_("Fail the run if the last statement that returns rows has some, or has none"),
    N_("Seconds for each statement; then it is cancelled on the server"),
    N_("Delete, move or archive files below a folder that the machine knows by name."),
    N_("What to do with the files"),
    N_("Name of the folder on the machine that runs the job; its path is known only there"),
    N_("Which files, below the root: *.log, app/*/old-?.log, **/*.tmp. ** stands for any folders"),
    N_("Files to leave alone: *.gz means such names in every folder"),
    N_("Only files that were last changed longer ago: 30m, 12h, 7d, 4w; empty: any"),
    N_("Only files larger than this: 500KB, 100MB; empty: any"),
    N_("So many of the newest matching files are left alone"),
    N_("The most files of one run, oldest first"),
    N_("Name of the folder to put files into; empty: the same"),
    N_(
        "For move a folder, for archive the name of the archive, which ends with .tar.gz or "
        ".zip: old/{date}.tar.gz. {date}, {time} and {run} are those of the run"
    ),
    N_("If there is a file of this name at the new place: leave both, replace it, or add a number"),
    N_("For archive: remove the files once the archive is complete"),
    N_("Remove folders that are empty afterwards"),
    N_("Only write to the log what would be done"),
)
_KNOWN = frozenset(READY_MADE_TEXTS)


def translated(description: str) -> str:
    """A description in the reader's language, if it is one of these; else as the node said it."""
    return gettext(description) if description in _KNOWN else description
