"""What uses the engine or the clock for a question of its own: clock, elastic runs, profiles, studies."""
