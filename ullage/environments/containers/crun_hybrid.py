"""Start a program in a mount namespace that hides the cgroup v2 tree of a hybrid host.

On a host with cgroup v1 controllers, crun refuses to start anything while the v2 tree beside them
still has a controller of its own (often `hugetlb`), though it would use none. Hiding that tree from
crun, and from nobody else, is enough. This file runs as a script, by `sys.executable -I -S`, so
that it starts fast and imports nothing of ours.
"""

import ctypes
import os
import sys
from pathlib import Path

UNIFIED = Path("/sys/fs/cgroup/unified")

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000


def needed() -> bool:
    """True on a host where crun would refuse."""
    controllers = UNIFIED / "cgroup.controllers"
    return controllers.is_file() and bool(controllers.read_text(encoding="ascii").strip())


def main(argv: list[str]) -> None:
    """Hide the tree, then become the program."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    user, group = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNS | (_CLONE_NEWUSER if user != 0 else 0)
    check(libc.unshare(flags))
    if user != 0:  # keep the ids, so that the program maps them as it would have done
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    # Mounted over, not unmounted: a user namespace may not take away what it did not mount.
    check(libc.mount(b"none", bytes(UNIFIED), b"tmpfs", 0, None))
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
