"""What all simulators share: schedules, outcomes, broken invariants."""
