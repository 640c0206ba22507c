"""One more instance, and its removal, with the instants of every part."""
