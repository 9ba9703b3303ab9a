"""Actions at work: the data files of the skills, plugins, slow work in a process of its own, and the handler."""
