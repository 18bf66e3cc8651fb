"""Boosters of XGBoost and LightGBM as skops files have them: created only after our own readers checked them.

skops_file.py puts these classes in place of the libraries' own, whose `__setstate__` trusts any bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm
import xgboost
from from_trees import from_lightgbm, from_xgboost, ubjson
from from_trees.fitted import reason
from messages.requests import ModelFault
from messages.sources import TreesCall

_AGAIN = 'write the file again with a newer {}: skops.io.dump(model, "model.skops")'


class XGBoost(xgboost.Booster):  # type: ignore[misc]
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        try:
            # The model, and settings of training, which answers do not need.
            content = ubjson.fields(bytes(state["handle"]))["Model"]
            super().__init__({"nthread": 1}, model_file=from_xgboost.checked(content))
        except from_xgboost.ERRORS as error:  # those of XGBoost are ValueErrors
            raise ModelFault(
                f"XGBoost's model in the file is damaged, or of an old version: {reason(error)}",
                _AGAIN.format("XGBoost"),
            ) from error


class LightGBM(lightgbm.Booster):  # type: ignore[misc]
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        try:
            text = str(state["_handle"])
            from_lightgbm.fitted_of_text(text, TreesCall(categories="codes"))
            super().__init__({"num_threads": 1, "verbosity": -1}, model_str=text)
            self.best_iteration = int(state["best_iteration"])
        except (*from_lightgbm.ERRORS, TypeError, lightgbm.basic.LightGBMError) as error:
            raise ModelFault(
                f"LightGBM's model in the file is damaged: {reason(error)}", _AGAIN.format("LightGBM")
            ) from error
