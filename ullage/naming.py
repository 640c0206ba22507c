"""Keys of environments and workloads as names of files, and of instances."""

from __future__ import annotations


def slug(key: str) -> str:
    """A key as a file name: `vm[nic=e1000]` → `vm-nic-e1000`."""
    plain = "".join(c if c.isalnum() or c in "._" else "-" for c in key).strip("-.")
    while "--" in plain:
        plain = plain.replace("--", "-")
    return plain


def instance_name(key: str) -> str:
    """The beginning of an instance's name, which becomes a host name: short, and `a-z0-9-` alone.

    Several keys may have the same.
    """
    return slug(key)[:24].strip("-.").lower().replace(".", "-").replace("_", "-")
