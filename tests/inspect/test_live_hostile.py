"""Directories that change while they are read, and directories that somebody made to hurt: an answer or one line, never more."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_inspect.decode.directory import Kind, list_store
from rmq_inspect.decode.index_file import IndexReader
from rmq_inspect.decode.log import UNIT_BYTES_MAX, Piece, Spoilt, Unit, Unused, _FileWalk, pieces
from rmq_inspect.decode.select import Wanted, messages
from rmq_inspect.errors import CannotLook
from rmq_wire.layout.flat import flat
from rmq_wire.layout.message import HEAD, MAGIC_V1
from rmq_wire.message import pack_unit
from tests.support.command import look
from tests.support.store_rig import HOST
from tests.support.stores import SLOTS, golden_store, put, rich_store, spoil

ROOT = Path(__file__).parents[2]
GIBIBYTE = 1 << 30
MEMORY_MAX = 64 << 20
"""What a look may take besides the interpreter."""


# While a broker writes


def test_messages_that_come_while_they_are_read(tmp_path: Path) -> None:
    rig = rich_store(tmp_path, messages=100, clean=False)
    store = list_store(tmp_path)
    found = messages(store, Wanted(), scan=True)
    first = list(itertools.islice(found, 90))
    for number in range(100, 130):
        put(rig, number)
    rest = list(found)
    offsets = [unit.message.physical_offset for unit in [*first, *rest]]
    assert offsets == sorted(set(offsets))
    assert len(offsets) >= 100
    assert len(look("show", tmp_path, "--json").rows) == 130
    assert rig.store.close(rig.wall_ms)


def test_every_command_on_a_store_in_use(tmp_path: Path) -> None:
    rig = rich_store(tmp_path / "s", messages=60, clean=False)
    root = tmp_path / "s"
    for step in range(3):
        assert len(look("show", root, "--topic", "TopicA", "--json").rows) >= 40
        assert look("find", root, "key30").status == 0
        assert look("explain", root, "--topic", "TopicA", "--queue", 0, "--at", 5).status == 0
        assert look("stats", root).status == 0
        assert look("repair", root, "--to", tmp_path / f"new{step}", "--hash-slots", SLOTS).status in (0, 1)
        for number in range(60 + 40 * step, 100 + 40 * step):
            put(rig, number)
    assert rig.store.close(rig.wall_ms)


def test_keys_whose_slots_are_not_written_yet(tmp_path: Path) -> None:
    """Our broker writes entries at once and hash slots within a minute; a kill leaves the same."""
    rig = rich_store(tmp_path / "s", messages=30, clean=False)
    for number in range(30, 60):
        put(rig, number)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "s", copy)
    assert rig.store.close(rig.wall_ms)
    with IndexReader(list_store(copy).index[-1], SLOTS) as reader:
        assert reader.header.index_count > 1
        assert reader.slot(next(reader.entries(reader.count - 1)).key_hash % SLOTS) == 0, "else this shows nothing"
    for number in (1, 31, 58):
        for root in (copy, tmp_path / "s"):
            [row] = look("find", root, f"key{number}", "--hash-slots", SLOTS, "--json").rows
            explained = look("explain", root, "--topic", row["topic"], "--key", f"key{number}", "--hash-slots", SLOTS, "--json")
            assert (explained.status, explained.rows[-1]["found"]) == (0, True), number
    assert look("find", copy, "nobody", "--hash-slots", SLOTS).status == 1


def test_a_lost_index_file_between_others(tmp_path: Path) -> None:
    """What no index file covers is read from the log, also in the midst."""
    rich_store(tmp_path, messages=240, rolled_back=False)
    index = list_store(tmp_path).index
    assert len(index) > 4
    for file in index[1], index[2], index[-1]:
        file.path.unlink()
    for number in range(240):
        assert len(look("find", tmp_path, f"key{number}", "--hash-slots", SLOTS, "--json").rows) == 1, number


def test_files_that_vanish(tmp_path: Path) -> None:
    rich_store(tmp_path)
    store = list_store(tmp_path)
    shutil.rmtree(tmp_path / "commitlog")
    with pytest.raises(CannotLook, match="No such file"):
        list(messages(store, Wanted(), scan=True))
    with pytest.raises(CannotLook, match="No such file"):
        store.commit_log[0].open()


def test_a_unit_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the log is torn now and whole a moment later: the walk looks again before it complains."""
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{0:020}"
    unit = pack_unit(0, 0, 0, 0, 0, 1, HOST, 2, HOST, 0, 0, b"body", b"T", b"")
    path.write_bytes(unit[:50].ljust(4096, b"\0"))
    torn, unused = pieces(list_store(tmp_path).commit_log)
    assert (type(torn), type(unused)) == (Spoilt, Unused)
    assert torn.end == unused.at == len(unit[:50].rstrip(b"\0"))
    look_at = _FileWalk._piece

    def written_after_the_first_look(walk: _FileWalk, at: int) -> Piece:
        found = look_at(walk, at)
        path.write_bytes(unit.ljust(4096, b"\0"))
        return found

    monkeypatch.setattr(_FileWalk, "_piece", written_after_the_first_look)
    assert [type(piece) for piece in pieces(list_store(tmp_path).commit_log)] == [Unit, Unused]


# Made to hurt

COMMANDS = (
    ("show",),
    ("show", "--json", "--body", "json"),
    ("show", "--topic", "TopicA", "--queue", "0"),
    ("show", "--full"),
    ("find", "key7"),
    ("find", "key7", "--topic", "TopicA"),
    ("find", "7F00000100002A9F0000000000000190"),
    ("find", "--tag", "Tag1"),
    ("explain", "--topic", "TopicA", "--key", "key7"),
    ("explain", "--offset", "0"),
    ("explain", "--topic", "TopicA", "--queue", "1", "--at", "3"),
    ("explain", "--topic", "TopicA", "--queue", "1", "--at", "@now"),
    ("stats",),
    ("stats", "--json"),
)


def all_commands(root: Path, sound: Path, scratch: Path) -> None:
    """None of them may fail in a way of its own; what they print is a screen's."""
    for name, *arguments in COMMANDS:
        seen = look(name, root, *arguments)
        assert seen.status in (0, 1, 2), (name, arguments, seen)
        assert seen.status != 2 or seen.err.startswith("rmq: ")
        assert "\x1b" not in seen.out + seen.err
    for part in ("consumequeue", "index", "checkpoint", "commitlog"):
        if (root / part).exists():
            assert look("show", root / part).status in (0, 1, 2)
    assert look("diff", sound, root, "--all").status in (0, 1, 2)
    shutil.rmtree(scratch, ignore_errors=True)
    assert look("repair", root, "--to", scratch, "--hash-slots", SLOTS).status in (0, 1, 2)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    rich_store(root, messages=80)
    return root


NUMBERS = st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\0\0\0\x01", b"\x7f" + b"\xff" * 7])
DATA = st.one_of(NUMBERS, st.binary(min_size=1, max_size=64), st.integers(1, 5000).map(bytes))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30), DATA), min_size=1, max_size=4))
def test_random_damage(sound: Path, tmp_path: Path, damages: list[tuple[int, int, bytes]]) -> None:
    root = tmp_path / "s"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root)
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    for which, where, data in damages:
        path = files[which % len(files)]
        spoil(path, where % path.stat().st_size, data)
    all_commands(root, sound, tmp_path / "new")


def nonsense(kind: str, data: bytes, other: bytes) -> bytes:
    match kind:
        case "zeros":
            return bytes(len(data))
        case "ones":
            return b"\xff" * len(data)
        case "random":
            return bytes(n * n % 251 for n in range(len(data)))
        case "short":
            return data[: len(data) // 3]
        case "swapped":
            return other[: len(data)]
    return b""


@pytest.mark.parametrize("kind", ["zeros", "ones", "random", "empty", "short", "swapped"])
def test_whole_files_of_nonsense(sound: Path, tmp_path: Path, kind: str) -> None:
    for part in ("commitlog", "consumequeue", "index", "checkpoint"):
        root = tmp_path / part
        shutil.copytree(sound, root)
        for path in [root / part] if (root / part).is_file() else [path for path in (root / part).rglob("*") if path.is_file()]:
            path.write_bytes(nonsense(kind, path.read_bytes(), (root / "commitlog" / f"{0:020}").read_bytes()))
        all_commands(root, sound, tmp_path / "new")


def test_a_log_that_is_all_magics_takes_linear_time(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    head = flat(HEAD)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(head.field("magic").pack(MAGIC_V1) * 200_000)
    [piece] = pieces(list_store(tmp_path).commit_log)
    assert isinstance(piece, Spoilt)
    assert piece.end == 800_000


def test_claims_of_huge_units_cost_nothing(tmp_path: Path) -> None:
    """Headers that are right but for their length, every 100 bytes, in a file that could hold what they claim."""
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{0:020}"
    head = flat(HEAD)
    with path.open("wb") as file:
        for at in range(0, 500_000, 100):
            file.write(head.packed.pack(UNIT_BYTES_MAX, MAGIC_V1, 0, 0, 0, 0, at, 0, 0).ljust(100, b"\x01"))
        file.truncate(GIBIBYTE)
    tracemalloc.start()
    assert [type(piece) for piece in pieces(list_store(tmp_path).commit_log)] == [Spoilt, Unused]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_MAX + UNIT_BYTES_MAX


def test_a_store_of_hundred_gibibytes_of_holes(tmp_path: Path) -> None:
    """Preallocated, sparse: nothing is read that was never written, and memory does not grow with the size."""
    rich_store(tmp_path, log_file_bytes=8192, messages=20)
    for number in range(100):
        path = tmp_path / "commitlog" / f"{(number + 1) * GIBIBYTE:020}"
        path.touch()
        os.truncate(path, GIBIBYTE)
    tracemalloc.start()
    assert len(look("show", tmp_path, "--scan", "--json").rows) == 20
    assert look("stats", tmp_path).status == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_MAX


def test_links_pipes_and_strays(tmp_path: Path) -> None:
    outside = golden_store(tmp_path / "outside")
    root = tmp_path / "s"
    (root / "consumequeue" / "T" / "0").mkdir(parents=True)
    (root / "config").mkdir()
    (root / "commitlog").symlink_to(outside / "commitlog")
    (root / "consumequeue" / "T" / "0" / f"{0:020}").symlink_to(outside / "checkpoint")
    (root / "config" / "topics.json").symlink_to(outside / "config" / "topics.json")
    os.mkfifo(root / "checkpoint")
    (root / "secret.txt").write_text("x")
    (root / "abort").write_text("1")
    (root / "consumequeue" / "T" / "0" / "tmp").touch()
    store = list_store(root)
    assert [file.name for file in store.files()] == ["abort"]
    why = {stray.name: stray.why for stray in store.strays}
    assert "links are not followed" in why["commitlog"]
    assert "links are not followed" in why[f"consumequeue/T/0/{0:020}"]
    assert "links are not followed" in why["config/topics.json"]
    assert "pipe" in why["checkpoint"]
    assert {"secret.txt", "consumequeue/T/0/tmp"} <= why.keys()
    for command in ("show", "stats", "find"):
        seen = look(command, root, *(["x"] if command == "find" else []))
        assert (seen.status, seen.out.count("kinds")) in ((0, 0), (1, 0), (2, 0))
    assert look("show", outside, "--commit-log", root / "commitlog").status == 0, "what the user names may be a link"


def test_a_name_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    golden = golden_store(tmp_path / "s")
    [file] = [file for file in list_store(golden).files() if file.kind is Kind.CHECKPOINT]
    (golden / "checkpoint").unlink()
    (golden / "checkpoint").symlink_to("/etc/passwd")
    with pytest.raises(CannotLook, match="link"):
        file.open()


def test_a_directory_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    golden, outside = golden_store(tmp_path / "s"), golden_store(tmp_path / "outside")
    files = [file for file in list_store(golden).files() if len(file.parts) > 1]
    for name in ("commitlog", "consumequeue", "index", "config"):
        shutil.rmtree(golden / name)
        (golden / name).symlink_to(outside / name)
    for file in files:
        with pytest.raises(CannotLook, match=file.parts[0]):
            file.open()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 100_000,
        "{" + '"k":{' * 5000,
        '{"a":1e999999999}',
        '{"a":' + "9" * 500_000 + "}",
        '"\\ud800"',
        "\xff",
    ],
)
def test_json_bombs(tmp_path: Path, text: str) -> None:
    golden = golden_store(tmp_path / "s")
    (golden / "config" / "topics.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    (golden / "config" / "topics.json.bak").unlink(missing_ok=True)
    seen = look("show", golden / "config" / "topics.json")
    assert seen.status in (0, 2)
    assert len(seen.err.splitlines()) <= 1
    assert len(seen.err) < 1000
    assert look("repair", golden, "--to", tmp_path / "new").status in (0, 1)
    assert look("diff", golden, tmp_path / "new").status in (0, 1)


def test_names_that_no_broker_gives(tmp_path: Path) -> None:
    """A topic with an escape, half a character, a number beyond 64 bits."""
    golden = golden_store(tmp_path / "s")
    queue = golden / "consumequeue"
    for topic in ("red\x1b[31m", "half\udc80"):
        shutil.copytree(queue / "kinds-5_5_0", queue / topic)
    shutil.copy(golden / "commitlog" / f"{0:020}", golden / "commitlog" / ("9" * 20))
    all_commands(golden, golden_store(tmp_path / "sound"), tmp_path / "new")
    assert look("show", golden / "consumequeue").status == 0


def test_a_message_from_everywhere(tmp_path: Path) -> None:
    """Topics that climb out of the directory stay in the log; no file is made of them."""
    (tmp_path / "s" / "commitlog").mkdir(parents=True)
    log, offset = b"", 0
    for topic in (b"../../evil", b"/etc/evil", b"..", b"", b"a\0b", b"\xff\xfe", b"x" * 300, b"good"):
        raw = pack_unit(0, 0, 0, offset, 0, 1, HOST, 2, HOST, 0, 0, b"b", topic, b"")
        log, offset = log + raw, offset + len(raw)
    for queue_id, queue_offset in ((-1, 0), (0, 1 << 60), (0, -5), ((1 << 31) - 1, 0)):
        raw = pack_unit(queue_id, 0, queue_offset, offset, 0, 1, HOST, 2, HOST, 0, 0, b"b", b"good", b"")
        log, offset = log + raw, offset + len(raw)
    (tmp_path / "s" / "commitlog" / f"{0:020}").write_bytes(log.ljust(8192, b"\0"))
    assert len(look("show", tmp_path / "s", "--json").rows) == 12
    before = set(tmp_path.rglob("*"))
    seen = look("repair", tmp_path / "s", "--to", tmp_path / "deep" / "new", "--json", "--hash-slots", 10)
    assert seen.status == 1
    made = set(tmp_path.rglob("*")) - before
    assert all((tmp_path / "deep") in (path, *path.parents) for path in made)
    assert sorted(path.name for path in (tmp_path / "deep" / "new" / "consumequeue").iterdir()) == ["good"]


# The command as a process


def test_no_trio_and_no_numpy_are_imported(tmp_path: Path) -> None:
    golden = golden_store(tmp_path)
    for arguments in (("show", str(golden)), ("find", str(golden), "k1"), ("stats", str(golden)), ("--help",), ("layouts",)):
        program = (
            "import sys\nfrom rmq_cli.main import main\n"
            f"try:\n    main(['inspect', *{arguments!r}])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            "never = {'trio', 'numpy', 'pyarrow', 'broker_impl', 'rmq_store', 'rmq_net'}\n"
            "print(sorted(never & set(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)
        assert done.stderr.splitlines()[-1] == "[]", arguments


def test_a_signal_ends_it_with_one_line(tmp_path: Path) -> None:
    """The log is a pipe to us that never ends: it is in the middle of work for certain when the signal comes."""
    rich_store(tmp_path, messages=200)
    program = [sys.executable, "-m", "rmq_cli.main", "inspect", "show", str(tmp_path), "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("{")  # and the pipe is full before the 200th
        child.send_signal(signal.SIGINT)
        _, reported = child.communicate(timeout=60)
    assert child.returncode in (0, 130)
    assert "Traceback" not in reported
    assert child.returncode == 0 or reported == "rmq: interrupted\n"


def test_nothing_is_written_into_the_store(tmp_path: Path) -> None:
    """A report or an export over `checkpoint`, or beside the log files, would be damage of our own."""
    root, log = tmp_path / "s", tmp_path / "log"
    rich_store(root, messages=30)
    (root / "commitlog").rename(log)
    link = tmp_path / "link"
    link.symlink_to(root)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for place in (
        root / "checkpoint",
        root / "new.jsonl",
        link / "index" / "x.jsonl",
        log / "00000000000000000000",
        log / "x.jsonl",
    ):
        for words in (("verify", "--html"), ("stats", "--html"), ("export", "--format", "jsonl", "--to")):
            seen = look(words[0], root, "--commit-log", log, *words[1:], place)
            assert seen.status == 2
            assert "elsewhere" in seen.err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert look("export", root, "--commit-log", log, "--to", tmp_path / "all.jsonl").status == 0


def test_directories_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for place in ("file", "empty", "nowhere"):
        for command in ("show", "stats", "verify"):
            seen = look(command, tmp_path / place)
            assert seen.status == 2, (place, command)
            assert len(seen.err.splitlines()) == 1
    log = golden_store(tmp_path / "s") / "commitlog"
    assert "give its parent" in look("stats", log).err
