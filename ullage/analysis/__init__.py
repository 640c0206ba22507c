"""What a run folder says: one file a question. Nothing here runs or needs the machine it ran on."""
