"""Files and disks."""
