"""Virtual machines of a Hyper-V host: its own PowerShell over ssh, the agent by ssh inside."""
