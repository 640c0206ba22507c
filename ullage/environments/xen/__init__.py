"""Virtual machines of Xen, made by its own tool `xl`."""
