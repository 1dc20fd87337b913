"""What stands in the API server's objects, in the words of each project: typed records, read and written."""
