"""An emulated Debian that is dom0 of a real Xen, with ullage in it."""
