"""The commands `inspect` and `timeline`: what an export makes of a model, and where the time of a call goes."""
