"""What other machines cost: trials there, clocks, images, many of them."""
