"""`local-cluster[2,1,1024]`: executors are processes of their own, and some of them, or their Python, are killed in mid-job.

One session does all that is looked at here: a Spark of several processes takes its time to come up.  An earlier one has begun an
export and was killed itself.  `make nightly` kills at more places.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from rmq_columns import parse_options
from rmq_columns.rebuild.work import rebuild
from tests.spark.cluster import (
    BY_DAY,
    DRIVER_S_MAX,
    ROOT,
    brief,
    clean_environment,
    needs_spark,
    run_driver,
    wanted_rows,
)
from tests.spark.mortal import END, KILLED
from tests.support.exports import exported, stored
from tests.support.generated import make
from tests.support.queue_files import files_of
from tests.support.stores import golden_of

HERE = Path(__file__).parent
FAULTS: Final = {"corrupt-body": 2, "queue-missing": 1, "queue-wrong": 1, "index-missing": 1}
CHECK: Final = "rmq_columns.checks.audit:check_log"
PUT, CREATE = "rmq_columns.export.destination:LocalDestination.put", "rmq_columns.export.destination:LocalDestination.create"
WRITE: Final = "rmq_columns.rebuild.files:Target.write"
APPEAR: Final = "rmq_columns.export.sinks:LocalSink.appear"
WHOLE, COUNT = "rmq_columns.export.files:SplitFiles.finish", "rmq_columns.export.split:_verify"
ASK: Final = "rmq_columns.export.manifest:check_open"
STOPPED: Final = "lost export"
"""An export of which an executor is stopped, so that Spark takes it for lost, and whose Python goes on when all is done."""
PLACES: Final = {"audit": (CHECK,), "export": (PUT,), "rebuild-queues": (WRITE,), STOPPED: (APPEAR,)}
MORE_PLACES: Final = {
    "audit": (END,),
    "export": (CREATE, END),
    "rebuild-queues": (END,),
    STOPPED: (CREATE, WHOLE, COUNT, ASK, PUT, END),
}
"""Before which call, or behind all of a task's work, its executor dies: each step of a split, in order."""
CLUSTER_S_MAX: Final = 1800
LOST_S: Final = 30
"""After which an executor that says nothing is lost: each that is stopped takes so long."""
DIED: Final = "died"
BEGUN: Final = "begun"
"""The export that a driver began which was killed."""
DIES: Final = """
import os, sys
from pathlib import Path
from rmq_spark.jobs.export import export
from rmq_spark.session import make_session
from tests.spark.mortal import mortal_tasks
store, to, marks, step = sys.argv[1:]
spark = make_session(None, {})
with mortal_tasks(Path(marks), step, os.getpid()):
    export(spark, store, to=to, splitBytes="8k")
"""


class Ran(NamedTuple):
    """What two drivers left.  store: of Java; faulty: a generated one."""

    root: Path
    store: Path
    faulty: Path
    found: dict[str, Any]
    first: subprocess.CompletedProcess[str]


def ran_at(root: Path, places: Mapping[str, tuple[str, ...]], *more: str) -> Ran:
    """The packages come by PYTHONPATH, as where they are installed everywhere."""
    home = needs_spark()
    store = golden_of("mix", root / "broker-a")
    faulty, _ = make(root / "broker-b", FAULTS)
    (root / "strange").mkdir()
    (root / "strange" / "pyspark_strange.py").write_text("raise ImportError('somebody else')")
    own_home = root / "spark"  # executors work beneath it, wherever SPARK_WORKER_DIR is
    own_home.mkdir()
    for name in ("bin", "jars", "python"):
        (own_home / name).symlink_to(home / name)
    paths = os.pathsep.join((str(ROOT), str(HERE), str(root / "strange")))
    own = {"SPARK_HOME": str(own_home), "PYTHONPATH": paths, "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = {
        **BY_DAY,
        "spark.ui.enabled": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.local.dir": str(root),
        "spark.executor.extraJavaOptions": brief(),
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.heartbeatInterval": "2s",
        "spark.network.timeout": f"{LOST_S}s",
        "spark.network.timeoutInterval": "2s",
    }
    set_so = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]

    def submit(master: str, *program: str) -> list[str]:
        return [str(own_home / "bin" / "spark-submit"), "--master", master, *set_so, *program]

    (root / "dies.py").write_text(DIES)
    command = submit("local[2]", str(root / "dies.py"), str(store), str(root / BEGUN), str(root / DIED), PUT)
    first = subprocess.run(
        command,
        cwd=root,
        env=clean_environment(**own),
        timeout=DRIVER_S_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    (root / "work").mkdir()
    (root / "work" / "calls.json").write_text(json.dumps(calls(root, store, faulty, places)))
    driver = [str(HERE / "cluster_driver.py"), str(store), str(root / "work"), str(root / "outcome.json"), "calls", *more]
    command = submit("local-cluster[2,1,1024]", *driver)
    return Ran(
        root, store, faulty, run_driver(command, root, clean_environment(**own), root / "outcome.json", CLUSTER_S_MAX), first
    )


def calls(root: Path, store: Path, faulty: Path, places: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """As the driver takes them."""
    listed: list[Any] = []
    for job, steps in places.items():
        for number, step in enumerate(steps):
            is_begun = job == "export" and step == PUT
            to = {} if job == "audit" else {"to": str(root / (BEGUN if is_begun else f"{job} {number}"))}
            how = signal.SIGSTOP if job == STOPPED else signal.SIGKILL
            own = "export" if job == STOPPED else job
            listed.append([f"{job} {number}", own, str(faulty if job == "audit" else store), to, step, how])
    return listed


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran_at(tmp_path_factory.mktemp("local-cluster"), PLACES, "die")


def test_a_store_is_read_by_both_ways(ran: Ran) -> None:
    wanted = wanted_rows(ran.store)
    assert wanted
    assert ran.found["format"] == wanted
    assert ran.found["worked"] == wanted
    places = {Path(seen["place"]) for seen in ran.found["seen"]}
    assert len(places) == 2
    assert {place.relative_to(ran.root).parts[0] for place in places} == {"spark"}


@pytest.mark.parametrize("whom", ["python", "executor"])
def test_killed_in_mid_job(ran: Ran, whom: str) -> None:
    """It was killed, and every row is there, once."""
    assert int((ran.root / "work" / f"killed-{whom}").read_text()) > 1
    assert ran.found[whom] == wanted_rows(ran.store)


def hold_audit(ran: Ran, name: str) -> None:
    """As without Spark."""
    from rmq_columns.checks.audit import audit
    from rmq_columns.checks.scope import Scope
    from rmq_spark.jobs.audit import finding_rows, queue_rows

    def in_turn(what: str, work: Callable[[Any], Any], pieces: Any) -> list[Any]:
        return [work(piece) for piece in pieces]

    reported = ran.found["killed"][name]
    wanted = audit(parse_options({"path": str(ran.faulty), "splitBytes": "8k"}), Scope(), in_turn)
    assert reported["figures"]["errors"] + reported["figures"]["warnings"] == sum(row[7] for row in finding_rows(wanted)) > 0
    assert sorted(reported["frames"]["findings"], key=repr) == sorted(map(list, finding_rows(wanted)), key=repr)
    assert reported["frames"]["queues"] == [list(row) for row in queue_rows(wanted)]


def hold_export(ran: Ran, name: str, to: Path) -> None:
    """Rows as in the store; no file beside those of the manifest."""
    wanted = stored(ran.store)
    assert exported(to) == wanted
    reported = ran.found["killed"][name]
    assert reported["clean"]
    assert reported["figures"]["rows"] == reported["figures"]["verifiedRows"] == len(wanted)
    lines = (to / "_manifest" / "manifest.jsonl").read_text().splitlines()
    names = [file["name"] for line in lines for file in json.loads(line)["files"]]
    assert sorted(names) == sorted(path.relative_to(to).as_posix() for path in to.rglob("*.parquet"))


def hold_queues(ran: Ran, name: str, to: Path) -> None:
    """Byte for byte what Java wrote; of a topic that was deleted, what is made without Spark."""
    whole = to.with_name(f"{to.name} without Spark")
    rebuild(parse_options({"path": str(ran.store), "splitBytes": "8k"}), str(whole))
    made = files_of(to)
    assert made == files_of(whole)
    assert made.items() >= files_of(ran.store).items() > set()
    assert ran.found["killed"][name]["clean"]


def hold(ran: Ran, places: Mapping[str, tuple[str, ...]]) -> None:
    """Each job ended as if nobody had died, and somebody did."""
    listed = calls(ran.root, ran.store, ran.faulty, places)
    assert listed
    for name, job, _, given, _, how in listed:
        assert ran.found["killed"][name]["killed"] > 1
        if how == signal.SIGSTOP:
            rows = len(stored(ran.store))
            assert ran.found["killed"][name]["seen"] == [rows, rows], "before and after the lost task ended"
        match job:
            case "audit":
                hold_audit(ran, name)
            case "export":
                hold_export(ran, name, Path(given["to"]))
            case _:
                hold_queues(ran, name, Path(given["to"]))


@pytest.mark.parametrize("job", [job for job in PLACES if job != STOPPED])
def test_a_job_whose_executor_is_killed(ran: Ran, job: str) -> None:
    hold(ran, {job: PLACES[job]})


def test_an_export_of_which_an_executor_is_lost_and_lives(ran: Ran) -> None:
    """Whoever reads the directory sees each message once."""
    hold(ran, {STOPPED: PLACES[STOPPED]})


def test_an_export_whose_driver_is_killed(ran: Ran) -> None:
    """The one of the test above: another driver had begun it; it wrote what was left."""
    assert (ran.root / DIED / KILLED).exists(), ran.first.stderr[-3000:]
    assert ran.first.returncode != 0
    figures = ran.found["killed"]["export 0"]["figures"]
    assert 0 < figures["splitsWritten"] < figures["splits"]


@pytest.mark.nightly
def test_killed_at_more_places(tmp_path: Path) -> None:
    hold(ran_at(tmp_path, MORE_PLACES), MORE_PLACES)


def test_a_broken_format_of_others_hides_ours(ran: Ran) -> None:
    """Spark's own behaviour; `register`, which the driver calls then, does not mind it."""
    assert "rocketmq_store" in ran.found["named"]
    assert "DATA_SOURCE_NOT_FOUND" in ran.found["named"] or "ClassNotFoundException" in ran.found["named"]
