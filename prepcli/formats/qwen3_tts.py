"""JSON lines with texts and codes for the fine-tuning of Qwen3-TTS (its finetuning/dataset.py)."""

import re

LINES_NAME = "{}_withAudioCodes_{}.jsonl"
LINES_FILE = re.compile(r".+_withAudioCodes_.+\.jsonl$")
NUM_CODEBOOKS = 16
REFERENCE_RATE = 24000
"""The sampling rate (Hz) that `ref_audio` must have: Qwen3-TTS fails for another rate."""
CODES = "audio_codes"
"""The field with the codes: for each frame a list of `NUM_CODEBOOKS` numbers."""
REFERENCE = "ref_audio"
