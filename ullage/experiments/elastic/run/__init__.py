"""An elastic run: front, viewers, nodes, controller."""
