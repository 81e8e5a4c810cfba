"""Run folders, and draws in the formats of others."""

from tessmc.storage._arviz import to_arviz
from tessmc.storage._draws import Array, DrawStore, Groups, Stored
from tessmc.storage._folder import Manifest, Pace, RunFolder, versions
from tessmc.storage._journal import FolderJournal
from tessmc.storage._note import KINDS, Note, from_arrays, read_note, to_arrays, write_note

__all__ = [
    "KINDS",
    "Array",
    "DrawStore",
    "FolderJournal",
    "Groups",
    "Manifest",
    "Note",
    "Pace",
    "RunFolder",
    "Stored",
    "from_arrays",
    "read_note",
    "to_arrays",
    "to_arviz",
    "versions",
    "write_note",
]
