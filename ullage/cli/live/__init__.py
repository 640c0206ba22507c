"""A page that follows a run, served to this machine while the run goes on (`ullage run --live`)."""
