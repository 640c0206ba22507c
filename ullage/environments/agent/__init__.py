"""The controller's side of the agent's protocol."""
