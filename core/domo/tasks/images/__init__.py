"""Folders of images as people have them: what is found, how a file is decoded, what becomes of it.

Every kind of file, folder and name has a stated behaviour: it is read with its full range, refused
with its name and a cure, or left out and counted aloud. docs/data.md lists them.
"""
