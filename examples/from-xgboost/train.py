"""Train the classifier of this example, and write it as data: needs xgboost and NumPy.

python train.py model.json
"""

import sys

import numpy as np
import xgboost

random = np.random.default_rng(0)
x = random.normal(size=(4000, 4)).astype(np.float32)
signal = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + random.normal(size=4000) / 4 > 0
x[random.random(x.shape) < 0.05] = np.nan  # missing numbers

model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, learning_rate=0.3, n_jobs=1)
model.fit(x, signal.astype(int))
model.get_booster().feature_names = ["pt", "eta", "d0", "isolation"]
model.save_model(sys.argv[1])
