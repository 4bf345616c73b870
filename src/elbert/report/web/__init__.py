"""The page: one HTML file that opens offline, for people who do not use a terminal."""
