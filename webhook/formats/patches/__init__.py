"""JSON patches, and what we write into pods and recognise there later."""
