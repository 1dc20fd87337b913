"""tests.unit.formats"""
