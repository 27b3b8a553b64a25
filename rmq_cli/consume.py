"""`rmq consume`: messages to the screen, to a command or to a function; as a member of a group, or without one."""

from __future__ import annotations

import click

from rmq_cli.client_options import Cluster, cluster_options, run
from rmq_cli.reading_options import Reading, reading_options
from rmq_cli.seconds import Seconds
from rmq_cli.tail import read

_FROM = {"start": "CONSUME_FROM_FIRST_OFFSET", "end": "CONSUME_FROM_LAST_OFFSET", "time": "CONSUME_FROM_TIMESTAMP"}


@click.command("consume")
@reading_options(note=" (without a group)")
@click.option("-g", "--group", help="Consume as a member of this group, which keeps progress; else read without any.")
@click.option("--orderly", is_flag=True, help="Of each queue one message after the other.")
@click.option("--broadcast", is_flag=True, help="All messages, with progress in a file of this machine.")
@click.option("--threads", type=click.IntRange(min=1), default=20, show_default=True, help="Messages at work at once.")
@click.option("--exec", "shell", metavar="COMMAND", help="Run it for each message, the body is its input; 0 is done.")
@click.option("--call", "function", metavar="MODULE:NAME", help="Call it with each message; False or an error is not done.")
@click.option("--profile", is_flag=True, help="Measure the work, and find how many threads are best.")
@click.option("--cores", type=click.IntRange(min=1), help="That the work may use, for --profile.")
@click.option("--step", "step_s", type=Seconds(min=0.01), default=3.0, show_default=True, help="Seconds of each try.")
@cluster_options
def command(
    cluster: Cluster,
    reading: Reading,
    group: str | None,
    orderly: bool,
    broadcast: bool,
    threads: int,
    shell: str | None,
    function: str | None,
    profile: bool,
    cores: int | None,
    step_s: float,
) -> None:
    """Consume a topic.  With a group progress is kept, and shared with its other members; without, nobody's changes.

    \b
    rmq consume my-topic --from start --no-follow --json
    rmq consume my-topic -g my-consumers -t "A || B"
    rmq consume my-topic -g my-consumers --exec 'curl -sf --data-binary @- http://127.0.0.1:8080/in'
    rmq consume my-topic -g my-profile --from start --exec ./work --profile

    With a group --from says where a queue begins of which the group has no progress yet.  What a command or a function fails
    comes again, and after its retries goes to the dead letters; where --count ends it before that, the status is 1.  Ctrl-C ends
    it: what is at work is finished, progress is kept; a second one does not wait.

    --profile measures how long a message computes (T1) and waits (T2), begins with a quarter of C x (T1 + T2) / T1 threads, which
    is the best on C cores as far as computing goes, and takes more step by step for as long as that is faster; with --orderly no
    more than the member has queues.
    """
    if shell is not None and function is not None:
        raise click.UsageError("--exec or --call, not both")
    if group is None and (orderly or broadcast or shell is not None or function is not None or profile):
        raise click.UsageError("--orderly, --broadcast, --exec, --call and --profile need a group: --group")
    if group is not None and (reading.offset is not None or reading.no_follow):
        raise click.UsageError("--offset and --no-follow go without a group")
    if group is None:
        read(cluster, reading)
        return
    first = reading.first
    from rmq_cli.consuming import Member
    from rmq_cli.work import Call, Print, Shell, Work

    work: Work = Shell(shell) if shell is not None else Call(function) if function is not None else Print(reading.as_json)
    settings = {
        "consume_from_where": _FROM[first.point],
        "consume_timestamp_ms": first.number,
        "orderly": orderly,
        "message_model": "BROADCASTING" if broadcast else "CLUSTERING",
        "consume_thread_max": threads,
    }
    member = Member(cluster, group, {reading.topic: reading.subscription}, settings, work, reading.most)
    if profile:
        from rmq_cli.profiling import Profile

        member.beside = Profile(member, cores or work.cores, step_s, orderly=orderly).run
    with work:
        run(member.run)
    member.exit()
