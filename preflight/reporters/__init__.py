"""One report, several renderings: each reporter is a function from a report to text."""
