"""How another machine is reached, and how ullage gets there."""
