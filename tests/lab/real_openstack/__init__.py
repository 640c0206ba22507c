"""A real OpenStack "Zed" on this host: Debian's packages, one compute node, instances under TCG.

Everything of it is in a root and in namespaces of its own. From nothing it is up after 6 minutes,
from a prepared folder after 2; 2.5 GB of disk, 2 GB of memory and half a GB for each instance.
"""
