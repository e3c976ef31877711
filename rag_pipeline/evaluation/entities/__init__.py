"""Compare answers with facts: extract entities, match them with the ground truth, score."""
