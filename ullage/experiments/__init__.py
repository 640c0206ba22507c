"""Questions of their own, put to the engine or the clock: clock, elastic, profile, studies."""
