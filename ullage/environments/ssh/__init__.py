"""Machines that one reaches by ssh: another Linux, or a Windows with OpenSSH."""
