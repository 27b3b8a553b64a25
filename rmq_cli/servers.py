"""From arguments to servers that are ready to run: configuration read and checked, ports bound, stores opened.

Everything that can be wrong is found here, before anything serves, and reported in one line each (`Complaint`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from broker_impl.broker import BrokerPlace, RunningServers
from broker_impl.config import BrokerConfig, Machine
from broker_impl.config_keys import keys
from broker_impl.dev_differences import DEV_DEFAULTS, measured_disk_ratios
from broker_impl.engine.limits import Limits
from broker_impl.env import SystemEnv
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.server import NameServer, create_name_server
from broker_impl.node import FAST_LISTENER, MAIN_LISTENER, BrokerNode
from broker_impl.properties import BadConfig, read_pair, read_properties, unknown
from rmq_cli.addresses import listen, listen_if_free, own_address, reachable, resolved
from rmq_cli.complaint import Complaint, Denied, TooFewDescriptors
from rmq_cli.ready import Listed
from rmq_cli.serving import Summary
from rmq_net.shell import bound_to
from rmq_store.disk.disk import RealDisk
from rmq_store.errors import StoreError
from rmq_wire.implied.delay_levels import FAST_DELAY_LEVELS

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
BROKER_LETTERS = "abcdefghijklmnop"
CONFIG_BYTES_MAX = 1 << 20
"""All keys that Java knows take 60 KiB; more is another file, taken by mistake, or one without an end."""
PORT_STEP = 10
"""Between the ports of two brokers of one process: each takes three (listenPort - 2, listenPort, listenPort + 1)."""


class DevPlan(NamedTuple):
    """What `rmq dev` was given."""

    root: Path
    namesrv_port: int
    broker_port: int
    brokers: int
    settings: Mapping[str, str]
    bind: str | None
    like_java: bool
    fast_delays: bool
    plain_streams: bool


def machine(own: str) -> Machine:
    """This machine as Java sees it; `own` is the address that others reach it by."""
    return Machine(
        host_name=socket.gethostname(),
        own_address=own,
        home=os.path.expanduser("~"),
        processors=os.cpu_count() or 1,
        rocketmq_home=os.environ.get("ROCKETMQ_HOME"),
        namesrv_addr=os.environ.get("NAMESRV_ADDR"),
    )


def limits_for(services: int, stores: int) -> Limits:
    """Limits of each of so many services and stores in this process.  Takes all descriptors that it may, as the JVM does.

    Raises `Complaint` where that is too few to serve anybody.
    """
    wanted = Limits.wanted(services, stores)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Limits()
    if soft < (least := Limits.least(services, stores)):
        raise TooFewDescriptors(soft, least)
    return Limits().within_descriptors(soft, services, stores)


def dev_settings(texts: Sequence[str], options: Mapping[str, tuple[str, bool]]) -> dict[str, str]:
    """The `--set` of `rmq dev`.  `options`: key -> the option that says the same, and whether it was given.

    Raises `Complaint` when a thing is said twice.
    """
    with _complaining():
        settings = _settings(texts)
    for key, (option, given) in options.items():
        if given:
            _not_twice(settings, key, option)
    return settings


def _settings(texts: Sequence[str]) -> dict[str, str]:
    """Of the command line.  Raises `BadConfig`, also for keys that nobody knows: whoever types one relies on it.

    In a file they are only reported: it may be another broker's, and Java passes over them, too.
    """
    settings = dict(read_pair(text) for text in texts)
    if faults := [unknown(name, keys()) for name in settings if name not in keys()]:
        raise BadConfig(faults)
    return settings


def open_dev(plan: DevPlan) -> tuple[RunningServers, Summary]:
    """The name server and the brokers of `rmq dev`.  Raises `Complaint`."""
    with _complaining():
        limits = limits_for(1 + plan.brokers, plan.brokers)
        bind = _bind_of(plan)
        names_socket = listen(bind, plan.namesrv_port, "name server", "--namesrv-port")
        bind = bound_to(names_socket)[0]
        own = own_address() if bind in (EVERYWHERE, "::") else bind
        _distinguish_brokers(plan)
        directory = plan.root / "namesrv"
        files = {"kvConfigPath": str(directory / "kvConfig.json"), "configStorePath": str(directory / "namesrv.properties")}
        listening = {"listenPort": str(bound_to(names_socket)[1]), "bindAddress": bind}
        names = create_name_server(SystemEnv(own), NamesrvConfig({**files, **listening}), limits=limits)
        notices: list[str] = []
        with _all_or_none() as places:
            for number in range(plan.brokers):
                entries = {**_measured(plan), **_dev_entries(plan, bind, number)}
                config = BrokerConfig(entries, _dev_machine(own))
                port = config.listen_port + number * PORT_STEP if config.listen_port else 0
                place = _broker_place(config, bind, port, limits, fast_required=False, option="--broker-port")
                places.append(place._replace(keeps_address="brokerIP1" in plan.settings))
                notices += config.notices if number == 0 else []
    address = reachable(names_socket)
    listening_on = [reachable(place.sockets[0][0]) for place in places]
    delays = FAST_DELAY_LEVELS if plan.fast_delays else None
    summary = Summary(address, listening_on, str(plan.root), [address], notices, fast_delays=delays)
    return RunningServers(names, [(names_socket, MAIN_LISTENER)], places, plan.plain_streams), summary


def dev_configs(plan: DevPlan) -> list[BrokerConfig]:
    """Those of the brokers of `rmq dev`, but for ports, addresses and what the disk decides.  Raises `Complaint`."""
    with _complaining():
        bind = _bind_of(plan)
        return [BrokerConfig(_dev_entries(plan, bind, number), _dev_machine(LOOPBACK)) for number in range(plan.brokers)]


def _dev_machine(own: str) -> Machine:
    """Its name server is the one in the process."""
    return machine(own)._replace(namesrv_addr=None)


def _bind_of(plan: DevPlan) -> str:
    return plan.settings.get("bindAddress") or plan.bind or (EVERYWHERE if plan.like_java else LOOPBACK)


def _distinguish_brokers(plan: DevPlan) -> None:
    """A setting counts for all brokers of the process: one that gives two of them a name or a log in common is refused."""
    if plan.brokers == 1:
        return
    others = [f"broker-{letter}" for letter in BROKER_LETTERS[1 : plan.brokers]]
    if plan.settings.get("brokerName") in others:
        name = plan.settings["brokerName"]
        raise Complaint(
            f"brokerName={name} is the name of another broker of --brokers {plan.brokers}: choose another for the first"
        )
    if plan.settings.get("storePathCommitLog"):
        raise Complaint(
            "storePathCommitLog= would give several brokers one log: leave it out (--store says where all lie), or --brokers"
        )


@contextlib.contextmanager
def _all_or_none() -> Iterator[list[BrokerPlace]]:
    """Brokers opened one by one: when one cannot be, those before it are closed as by a clean stop."""
    places: list[BrokerPlace] = []
    try:
        yield places
    except BaseException:
        for place in places:
            place.node.close()
        raise


def _measured(plan: DevPlan) -> dict[str, str]:
    """Properties that depend on the disk of the store."""
    if plan.like_java:
        return {}
    usage = shutil.disk_usage(plan.root)
    return measured_disk_ratios(usage.total, usage.used)


def _dev_entries(plan: DevPlan, bind: str, number: int) -> dict[str, str]:
    """Properties of the n-th broker: the declared differences, what the arguments say, what `--set` says."""
    name, settings = f"broker-{BROKER_LETTERS[number]}", plan.settings
    entries: dict[str, str] = {}
    if not plan.like_java:
        entries.update(DEV_DEFAULTS)
        if bind != LOOPBACK:
            del entries["brokerIP1"], entries["brokerIP2"]
    if plan.fast_delays:
        entries["messageDelayLevel"] = FAST_DELAY_LEVELS
    entries["listenPort"] = str(plan.broker_port)
    entries.update(settings)
    entries["bindAddress"] = bind
    entries["storePathRootDir"] = str(plan.root if number == 0 else plan.root / name)
    if plan.brokers > 1:
        entries["brokerName"] = name if number else settings.get("brokerName", name)
    return entries


def open_broker(
    config_file: Path | None, namesrv: str | None, settings: Sequence[str], *, plain_streams: bool
) -> tuple[RunningServers, Summary]:
    """One broker that registers with name servers elsewhere.  Raises `Complaint`."""
    with _complaining():
        limits = limits_for(1, 1)
        entries = _file_entries(config_file)
        entries.update(given := _settings(settings))
        if namesrv is not None:
            _not_twice(given, "namesrvAddr", "-n")
            entries["namesrvAddr"] = namesrv
        entries.setdefault("listenPort", "10911")
        path = None if config_file is None else str(config_file.absolute())
        config = BrokerConfig(entries, machine(own_address()), path=path)
        address, port = config.bind_address, config.listen_port
        place = _broker_place(config, address, port, limits, fast_required=True, option="--set listenPort=N")
    servers = ";".join(config.name_servers)
    asks = config.name_servers if config.broker_permission != 0 else ()
    broker = reachable(place.sockets[0][0])
    who = place.node.announcement.identity
    summary = Summary(servers or None, [broker], config.store_path_root_dir, asks, config.notices, Listed(who.name, who.addr))
    return RunningServers(brokers=[place], plain_streams=plain_streams), summary


def open_name_server(
    config_file: Path | None, port: int | None, bind: str | None, *, plain_streams: bool
) -> tuple[RunningServers, Summary]:
    """A name server alone.  Raises `Complaint`."""
    with _complaining():
        limits = limits_for(1, 0)
        entries = _file_entries(config_file)
        if port is not None:
            entries["listenPort"] = str(port)
        if bind is not None:
            entries["bindAddress"] = bind
        entries.setdefault("bindAddress", LOOPBACK)
        if config_file is not None:
            entries.setdefault("configStorePath", str(config_file.absolute()))
        config = NamesrvConfig(entries)
        sock = listen(config.bind_address, config.listen_port, "name server", "--port")
        names: NameServer = create_name_server(SystemEnv(own_address()), config, limits=limits)
    servers = RunningServers(names, [(sock, MAIN_LISTENER)], (), plain_streams)
    return servers, Summary(reachable(sock), (), None, (), config.notices)


def _broker_place(config: BrokerConfig, bind: str, port: int, limits: Limits, *, fast_required: bool, option: str) -> BrokerPlace:
    main = listen(bind, port, "broker", option)
    config.listening_on(bound_to(main)[1])
    sockets = [(main, MAIN_LISTENER)]
    fast = (
        listen(bind, config.fast_port, "broker's fast port (listenPort - 2)", option)
        if fast_required
        else listen_if_free(bind, config.fast_port)
    )
    if fast is not None:
        sockets.append((fast, FAST_LISTENER))
    make_store_directory(config.store_path_root_dir, "storePathRootDir=")
    return BrokerPlace(BrokerNode(SystemEnv(resolved(config.broker_ip1)), config, RealDisk(), limits), sockets)


def make_store_directory(path: str, option: str) -> None:
    """Make it, unless it is there.  Raises `Complaint`, which names the option that chooses another."""
    choose = f"choose another: {option}" if option.endswith("=") else f"choose another with {option}"
    if os.path.exists(path) and not os.path.isdir(path):
        raise Complaint(f"the store directory {path} is not a directory; {choose}")
    try:
        os.makedirs(path, exist_ok=True)
    except PermissionError as error:
        raise Denied(error.filename or path) from None
    except OSError as error:
        raise Complaint(f"the store directory {path} cannot be made ({error.strerror}); {choose}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise Denied(path)


def _file_entries(path: Path | None) -> dict[str, str]:
    """What a properties file says; nothing when there is none.  Raises `Complaint`, `BadConfig` naming file and line."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES_MAX + 1)
    except PermissionError:
        raise Denied(path) from None
    except OSError as error:
        raise Complaint(f"the configuration file {path} cannot be read: {error.strerror}") from None
    if len(data) > CONFIG_BYTES_MAX:
        raise Complaint(f"the configuration file {path} is none: it has more than {CONFIG_BYTES_MAX} bytes")
    try:
        return read_properties(data)
    except BadConfig as bad:
        raise BadConfig(f"{path}: {fault}" for fault in bad.faults) from None


def _not_twice(settings: Mapping[str, str], key: str, option: str) -> None:
    if key in settings:
        raise Complaint(f"{option} and --set {key}= say the same thing: leave one of them out")


@contextlib.contextmanager
def _complaining() -> Iterator[None]:
    """What is wrong with configuration or store, as one line."""
    try:
        yield
    except BadConfig as bad:
        raise Complaint("bad configuration: " + "; ".join(bad.faults)) from None
    except StoreError as bad:
        raise Complaint(str(bad)) from None
    except PermissionError as error:
        if not error.filename:
            raise Complaint(f"cannot start: {error.strerror or error}") from None
        raise Denied(error.filename) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise Complaint(f"cannot start: {error.strerror or error}{where}") from None
