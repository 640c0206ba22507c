"""A Debian of its own, emulated, in which KVM, vhost-net, bonding and netem are real."""
