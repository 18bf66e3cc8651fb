"""What everything stands on: errors aside, nothing here knows of models."""
