"""Containers: OCI by crun, Docker or Podman, and LXC."""
