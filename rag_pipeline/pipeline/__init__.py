"""The steps of a corpus and all that follows from them: plan, retention, inspection."""
