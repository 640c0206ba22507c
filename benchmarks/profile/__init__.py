"""How near the prediction of `ullage profile` comes."""
