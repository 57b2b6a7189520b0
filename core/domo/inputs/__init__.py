"""What a model is fed: the settings of image files, and the form of an input. Light, without torch.

All silos of a run must mean the same by both.
"""
