"""What a night came to, for people and for programs: compared with the nights before, grouped, judged, written.

`read_report` (report) makes a `Report` of a state folder, `write_report` (write) its files.
"""
