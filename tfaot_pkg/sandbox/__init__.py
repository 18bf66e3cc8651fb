"""One sandbox for all that touches what strangers made: models, and the programs that are compiled from them.

A `Sandbox` says what a program may do: read `readable`, write below `writable`, within `limits`. Nothing else: no other
file, no network, no other process, no other program. Two ways in, each gives a `Command`, which runs or starts:

    box = Sandbox(readable=(model_folder,), writable=(scratch,), limits=Limits.of_user())
    box.native([program, "argument"]).run()                            # a compiled program
    box.python(python, PROGRAM, ["argument"]).start(stdin=..., log=...)    # a Python program: a file or a folder

Paths are the same inside and outside. `Level` says how it is done here: namespaces (bubblewrap), Landlock, both with a
filter of system calls; without any of them programs are refused unless the user said --unconfined. What a program
wrote below `writable` is files and folders, never links, devices or pipes; their content is not to be trusted.
"""

from tfaot_pkg.sandbox.command import Command as Command
from tfaot_pkg.sandbox.command import Running as Running
from tfaot_pkg.sandbox.policy import Level as Level
from tfaot_pkg.sandbox.policy import Limits as Limits
from tfaot_pkg.sandbox.policy import Reached as Reached
from tfaot_pkg.sandbox.policy import Sandbox as Sandbox
from tfaot_pkg.sandbox.policy import allow_unconfined as allow_unconfined
from tfaot_pkg.sandbox.policy import reached as reached
from tfaot_pkg.sandbox.policy import required as required
