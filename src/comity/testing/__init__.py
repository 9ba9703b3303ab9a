"""For the tests of this project and of its users: clocks, links and nodes that do as they are told."""
