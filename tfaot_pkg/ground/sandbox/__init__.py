"""One sandbox for everything that is not trusted: models, and the programs that are compiled from them.

A `Sandbox` says what a program may do: read `readable`, write below `writable`, within `limits`. Everything else is
denied: other files, the network, other processes and programs. Two methods give a `Command`, which runs or starts:

    box = Sandbox(readable=(model_folder,), writable=(scratch,), limits=Limits.of_user())
    box.native([program, "argument"]).run()                            # a compiled program
    box.python(python, PROGRAM, ["argument"]).start(stdin=..., log=...)    # a Python program: a file or a folder

A `ForkServer` starts many programs of one interpreter, whose imports are paid once.

Paths are the same inside and outside. `Level` says which mechanism the machine has: namespaces (bubblewrap) or
Landlock, both with a filter of system calls; without them programs do not run unless the user passed --unconfined. A
program can create files and folders below `writable`, but no links, devices or pipes; the content is not trusted.
"""

from tfaot_pkg.ground.sandbox.command import Command as Command
from tfaot_pkg.ground.sandbox.command import Running as Running
from tfaot_pkg.ground.sandbox.fork_server import Forked as Forked
from tfaot_pkg.ground.sandbox.fork_server import ForkServer as ForkServer
from tfaot_pkg.ground.sandbox.policy import Level as Level
from tfaot_pkg.ground.sandbox.policy import Limits as Limits
from tfaot_pkg.ground.sandbox.policy import Reached as Reached
from tfaot_pkg.ground.sandbox.policy import Sandbox as Sandbox
from tfaot_pkg.ground.sandbox.policy import allow_unconfined as allow_unconfined
from tfaot_pkg.ground.sandbox.policy import may_fork as may_fork
from tfaot_pkg.ground.sandbox.policy import reached as reached
from tfaot_pkg.ground.sandbox.policy import required as required
