"""Measurements: a model beside other engines, its stages, and what suits it best."""
