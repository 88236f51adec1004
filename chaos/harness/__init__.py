"""Schedules, outcomes and failures shared by all simulators."""
