"""A real OpenStack "Zed" on this host: Debian's packages, one compute node, instances under TCG.

Everything of it is in a root and in namespaces of its own. From nothing it takes 25 minutes on a
machine that nobody else uses, from a prepared folder 2; 4 GB of disk, 2 GB of memory and half a GB
for each instance.
"""
