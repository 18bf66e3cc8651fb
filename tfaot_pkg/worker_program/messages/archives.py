"""Files of arrays by name, as `numpy.savez` writes them. Used by workers and by their parent."""

import os
import zipfile

import numpy as np


def write_arrays(path, arrays) -> None:
    """Write `arrays`, a mapping, to `path`, which exists only once it is complete: its reader may wait for it.

    Names may be any: `numpy.savez` takes those of its own parameters, such as `file`, for something else.
    """
    unfinished = f"{path}.part"
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name, array in arrays.items():
            # The size is not known before: without this, members above 2 GiB fail.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)
    os.replace(unfinished, path)
