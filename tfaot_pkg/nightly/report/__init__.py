"""The report of a night, for people and for programs: outcomes compared with earlier nights, grouped, and written.

`read_report` (report) makes a `Report` of a state folder, `write_report` (write) its files.
"""
