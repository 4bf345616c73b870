"""Audits of decision logs: a table of past decisions in, long-term benefit rates and what is not known out."""
