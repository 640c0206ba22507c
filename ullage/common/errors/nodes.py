"""Errors of other machines."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

NODE_UNKNOWN_HOST: Final = ErrorKind(
    "node-unknown-host",
    "{node}: nobody knows the host {address}",
    "`ssh {address} true` must work here; a short name may stand in ~/.ssh/config",
)
NODE_UNREACHABLE: Final = ErrorKind(
    "node-unreachable",
    "{node}: {address} cannot be reached: {reason}",
    "`ssh {address} true` must work here without a question",
)
NODE_KEY_UNKNOWN: Final = ErrorKind(
    "node-key-unknown",
    "{node}: the host key of {address} is not among the known ones",
    "log in once by hand, `ssh {address}`, and compare the fingerprint that it shows",
)
NODE_KEY_CHANGED: Final = ErrorKind(
    "node-key-changed",
    "{node}: {address} has another host key than before; somebody else may be answering",
    "ask whoever runs it; only if it was installed anew: `ssh-keygen -R HOST`, then log in once",
)
NODE_KEY_REFUSED: Final = ErrorKind(
    "node-key-refused",
    "{node}: {address} does not take our key",
    "`ssh-copy-id {address}`, or name the key in ~/.ssh/config; no password is ever asked for",
)
NODE_SUDO: Final = ErrorKind(
    "node-sudo",
    "{node}: sudo asks for a password there",
    "allow it without: `USER ALL=(root) NOPASSWD: ALL` in /etc/sudoers.d/ullage; or log in as root",
)
NODE_NOT_INSTALLED: Final = ErrorKind(
    "node-not-installed",
    "{node}: ullage is not installed for this user of {address}",
    "`ullage node install {address}` puts it there",
)
NODE_OTHER_VERSION: Final = ErrorKind(
    "node-other-version",
    "{node}: {address} has ullage, but not the same as here ({version})",
    "`ullage node install {address}` puts this one beside it",
)
NODE_NO_PYTHON: Final = ErrorKind(
    "node-no-python",
    "{node}: {address} has no {python}",
    "`apt-get install {python}` there: a node needs the Python that ullage has here",
)
NODE_ALLOCATION: Final = ErrorKind(
    "node-allocation",
    "{node}: no allocation of Slurm has a machine for it ({address}): {reason}",
    "start it inside of one: `salloc -N COUNT`, or a script for `sbatch`; in a new one "
    "`ullage run --resume` takes a run up",
    ExitCode.SOME_CELLS_FAILED,
)
NODE_DISK_FULL: Final = ErrorKind(
    "node-disk-full",
    "{node}: no space is left there for {what}",
    "make room on the disk of its cache directory; finished trials are kept",
    ExitCode.SOME_CELLS_FAILED,
)
NODE_IMAGE_CORRUPT: Final = ErrorKind(
    "node-image-corrupt",
    "{node}: the image that arrived there is {actual}, not {digest}",
    "try again; if it stays so, the connection or the disk there damages data",
    ExitCode.SOME_CELLS_FAILED,
)
NODE_REFUSED: Final = ErrorKind(
    "node-refused",
    "{node} cannot {op}: {reason} ({error})",
    "{advice}",
    ExitCode.SOME_CELLS_FAILED,
)
NODE_LOST: Final = ErrorKind(
    "node-lost",
    "the node {node} is gone: {reason}",
    "look at that machine; its trials have no figures, and `--resume` takes the run up",
    ExitCode.SOME_CELLS_FAILED,
)
NODE_NETWORK: Final = ErrorKind(
    "node-network",
    "{node} is not on one network with the others: {reason}",
    "docs/guide/nodes.md tells what has to be open between them, and of `address` and `vxlan`",
)
NODE_INSTALL_FAILED: Final = ErrorKind(
    "node-install-failed",
    "ullage could not be put on {address}: {reason}",
    "it needs `sh`, `tar` and some 60 MB in the home directory there",
)
