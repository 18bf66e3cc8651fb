"""Definitions of jobs that run the nightly: for CI services, systemd, cron, and Dask workers on batch systems.

`job.py` says what is to be run, `render.py` writes it down. Secrets are named, never held.
"""
