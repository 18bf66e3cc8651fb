// jet_tagger 1.0
