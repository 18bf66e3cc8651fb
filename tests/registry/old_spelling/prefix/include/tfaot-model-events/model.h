// events 1.0
