"""Extract entities from answers, match them with the ground truth, and score the answers."""
