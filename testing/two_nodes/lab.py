"""Two machines to log in to, on this one: each has namespaces, a home, a cache and a boot id of its
own, and an sshd; a bridge joins them with the controller.

    sudo python -m testing.two_nodes        # up, until Ctrl-C; prints ssh's configuration
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("node-a", "node-b")
READY_S = 20.0
COVERED = ("var/lib/ullage", "var/cache/ullage", "var/lib/lxc", "var/lib/containers")
HIERARCHIES = Path("/sys/fs/cgroup")
NAMESPACES = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]


@dataclass
class Machine:
    """One of them."""

    name: str
    address: str
    dir: Path
    process: subprocess.Popen[bytes]
    init: int
    """Its first process: when that ends, all of it does."""

    group: str
    """Its control group, in each hierarchy."""

    def kill(self) -> None:
        """As if somebody had pulled the plug."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, 9)
        _thaw_groups(self.group)
        self.process.wait(60)
        _remove_groups(self.group)

    def run(self, *argv: str) -> str:
        """What a program prints on that machine."""
        within = ["nsenter", "--target", str(self.init), "--all", "--", *argv]
        done = subprocess.run(within, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout


@dataclass
class Lab:
    """All of it."""

    dir: Path
    config: Path
    """For `ssh -F`."""
    machines: dict[str, Machine]
    bridge: str

    def plan(self, name: str) -> dict[str, str]:
        """The machine, as an entry of `nodes:`."""
        return {"ssh": f"root@{name}", "config": str(self.config)}

    def link(self, name: str, *, up: bool) -> None:
        """Pull its cable, or plug it in."""
        _ip("link", "set", _veth(self.bridge, name), "up" if up else "down")


@contextlib.contextmanager
def lab(names: Sequence[str] = NAMES) -> Iterator[Lab]:
    """Up, and gone at the end whatever happens."""
    directory = Path(tempfile.mkdtemp(prefix="ullage-nodes-", dir="/var/tmp"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        _key(directory / "key")
        number = _bridge()
        bridge = f"lab{number}"
        stack.callback(_ip, "link", "delete", bridge)
        _ip("address", "add", f"10.213.{number}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        machines = {}
        for index, name in enumerate(names):
            address = f"10.213.{number}.{index + 2}"
            machine = _machine(name, address, directory, bridge)
            stack.callback(machine.kill)
            machines[name] = machine
        ours = Lab(directory, directory / "ssh_config", machines, bridge)
        _write_config(ours)
        for machine in machines.values():
            _wait_for(machine)
        yield ours


def many(count: int) -> tuple[str, ...]:
    """Names of so many."""
    return NAMES if count == len(NAMES) else tuple(f"node-n{i}" for i in range(count))


def _machine(name: str, address: str, directory: Path, bridge: str) -> Machine:
    own = directory / name
    for folder in ("root", "keys", "cgroup"):
        (own / folder).mkdir(parents=True)
    for covered in COVERED:
        (own / covered).mkdir(parents=True)
        Path("/", covered).mkdir(parents=True, exist_ok=True)
    group = f"ullage-{directory.name}-{name}"
    for hierarchy in HIERARCHIES.iterdir():
        _group(hierarchy / group)
    (own / "root/boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    _key(own / "keys/host")
    shutil.copy(directory / "key.pub", own / "keys/authorized")
    (own / "keys/sshd_config").write_text(
        f"ListenAddress {address}\nHostKey /run/lab/host\nAuthorizedKeysFile /run/lab/authorized\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nPrintMotd no\nMaxStartups 100\n",
        encoding="ascii",
    )
    script = [str(HERE / "machine.sh"), name, str(own), group]
    process = subprocess.Popen(
        [*NAMESPACES, "sh", "-c", 'read go; exec unshare --cgroup sh "$@"', "sh", *script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=(own / "log").open("wb"),
        start_new_session=True,
    )
    init = _first_child(process.pid)
    veth = _veth(bridge, name)
    _ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", str(init))
    _ip("link", "set", veth, "master", bridge, "up")
    within = ["nsenter", "--target", str(init), "--net", "--", "ip"]
    for words in (
        ["address", "add", f"{address}/24", "dev", "eth0"],
        ["link", "set", "eth0", "up"],
        ["link", "set", "lo", "up"],
    ):
        subprocess.run([*within, *words], check=True)
    for hierarchy in HIERARCHIES.iterdir():
        (hierarchy / group / "cgroup.procs").write_text(str(init), encoding="ascii")
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.close()
    return Machine(name, address, own, process, init, group)


def _group(path: Path) -> None:
    """A control group for a machine; what it may use is what its parent may."""
    path.mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (path.parent / file).exists() and (path / file).exists():
            (path / file).write_text((path.parent / file).read_text(encoding="ascii"))


def _thaw_groups(group: str) -> None:
    """Who is frozen cannot die, not even with the first process of its namespace."""
    for state in HIERARCHIES.glob(f"*/{group}/**/freezer.state"):
        with contextlib.suppress(OSError):
            state.write_text("THAWED", encoding="ascii")
    for state in HIERARCHIES.glob(f"*/{group}/**/cgroup.freeze"):
        with contextlib.suppress(OSError):
            state.write_text("0", encoding="ascii")


def _remove_groups(group: str) -> None:
    for hierarchy in HIERARCHIES.iterdir():
        for folder, _, _ in os.walk(hierarchy / group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _first_child(pid: int) -> int:
    deadline = time.monotonic() + READY_S
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while time.monotonic() < deadline:
        if words := children.read_text(encoding="ascii").split():
            return int(words[0])
        time.sleep(0.01)
    raise TimeoutError("unshare has no child")


def _write_config(ours: Lab) -> None:
    known = ours.dir / "known_hosts"
    lines, blocks = [], []
    for machine in ours.machines.values():
        key = (machine.dir / "keys/host.pub").read_text(encoding="ascii").split()
        lines.append(f"{machine.address} {key[0]} {key[1]}")
        blocks.append(f"Host {machine.name}\n  HostName {machine.address}\n")
    known.write_text("\n".join(lines) + "\n", encoding="ascii")
    blocks.append(
        f"Host *\n  IdentityFile {ours.dir}/key\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n"
    )
    ours.config.write_text("".join(blocks), encoding="ascii")


def _wait_for(machine: Machine) -> None:
    deadline = time.monotonic() + READY_S
    log = machine.dir / "log"
    while b"Server listening" not in log.read_bytes():
        if time.monotonic() > deadline or machine.process.poll() is not None:
            raise RuntimeError(f"{machine.name}: {log.read_text(errors='replace')}")
        time.sleep(0.02)


def _bridge() -> int:
    """Make one; its number, which no other lab has, and no run's network."""
    routes = subprocess.run(["ip", "route"], check=True, capture_output=True, text=True).stdout
    for number in range(1, 250):
        if f"10.213.{number}." in routes:
            continue
        argv = ["ip", "link", "add", f"lab{number}", "type", "bridge"]
        if subprocess.run(argv, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return number
    raise RuntimeError("no bridge can be made")


def _veth(bridge: str, name: str) -> str:
    """`lab1a`, `lab1n17`: no longer than a device's name may be."""
    return f"{bridge}{name.rpartition('-')[2]}"


def _key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
