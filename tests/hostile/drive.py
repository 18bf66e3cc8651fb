"""Do to each model of the corpus what a build does, without any confinement; print what became of it, a JSON line each.

    TOOLCHAIN/bin/python drive.py WORKER_PROGRAM FOLDER SCRATCH [NAME...]

The worker's own modules freeze the model, look at its operations and compute TensorFlow's answers.
"""

import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def main():
    program, folder, scratch, *names = sys.argv[1:]
    sys.path.insert(0, program)
    import numpy as np

    np.savez(os.path.join(scratch, "inputs.npz"), x=np.full((1, 4), 7.5, np.float32))
    for name in names:
        print(json.dumps({"model": name, **_driven(os.path.join(folder, name), scratch)}), flush=True)


def _driven(folder, scratch):
    import freeze
    import reference
    import saved_model
    from messages import graph, requests

    model = {"folder": folder, "tags": ("serve",)}
    chosen = graph.Chosen(**model, signature="serving_default", shapes={}, inputs=(), outputs=())
    running = requests.Reference(
        **model,
        signature="serving_default",
        inputs=os.path.join(scratch, "inputs.npz"),
        out=os.path.join(scratch, "answers.npz"),
        batch_sizes=(1,),
        batched=("x",),
        stacked=("y",),
    )
    messages = []
    for run, request in (
        (saved_model.inspect, graph.Inspect(**model)),
        (freeze.check, graph.Check(model=chosen)),
        (freeze.freeze, graph.Freeze(model=chosen, weights="shared", threshold=1, out=scratch)),
        (reference.reference, running),
    ):
        try:
            run(request, lambda *_: None)
        except requests.ModelFault as fault:
            messages.append(f"{fault.message}\n{fault.hint}")
    return {"messages": messages}


if __name__ == "__main__":
    main()
