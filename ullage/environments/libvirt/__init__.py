"""Virtual machines by libvirt."""
