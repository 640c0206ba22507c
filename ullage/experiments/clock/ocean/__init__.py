"""An ocean model under each clock: what the library's costs it, a daemon's, and ours."""
