"""Tests beside the real Megatron-Energon."""
