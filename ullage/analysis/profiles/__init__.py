"""What a command waits for, as weights of resources, and what its overhead will be elsewhere."""
