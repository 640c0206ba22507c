"""Energy of trials: what the meters of a run read, integrated over each trial and compared."""
