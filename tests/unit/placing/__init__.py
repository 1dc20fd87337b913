"""tests.unit.placing"""
