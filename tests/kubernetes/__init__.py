"""Tests of scripts/kubernetes."""
