"""The messages between the host (frontends/toolchain/worker.py) and this program: frozen types that both sides share.

Both sides encode and decode them by wire.py; neither passes dictionaries on. The host trusts nothing in an answer:
types and bounds are checked when it is decoded, paths and names of nodes where they are used.

Imports are relative: here this package is `messages`, for the host `tfaot_pkg.worker_program.messages`.
"""
