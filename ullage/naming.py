"""Keys of environments and workloads as names of files."""

from __future__ import annotations


def slug(key: str) -> str:
    """A key as a file name: `vm[nic=e1000]` → `vm-nic-e1000`."""
    plain = "".join(c if c.isalnum() or c in "._" else "-" for c in key).strip("-.")
    while "--" in plain:
        plain = plain.replace("--", "-")
    return plain
