"""Virtual machines by QEMU."""
