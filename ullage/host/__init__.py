"""What this machine is and can do: facts, clock, control groups, network, disks, images."""
