# A host that answers nothing.
