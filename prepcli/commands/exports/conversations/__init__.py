"""`conversations-to-tarred`: writes conversations with their audio to tars, for speech language models."""
